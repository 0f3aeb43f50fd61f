/* libzmq: requests and answers between two threads, by default over tcp. Needs libzmq3-dev. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define CHECK(condition)                                      \
	do {                                                  \
		if (!(condition)) {                           \
			fprintf(stderr, "%s\n", #condition);  \
			abort();                              \
		}                                             \
	} while (0)

enum { ROUNDS = 10, SIZE = 5 };

static void *context;
static char endpoint[256];

static void *serve(void *unused)
{
	char text[32];
	void *socket = zmq_socket(context, ZMQ_REP);
	CHECK(zmq_connect(socket, endpoint) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(zmq_recv(socket, text, sizeof text, 0) == SIZE);
		CHECK(zmq_send(socket, text, SIZE, 0) == SIZE);
	}
	zmq_close(socket);
	return unused;
}

int main(int count, char **words)
{
	pthread_t server;
	char text[32];
	size_t size = sizeof endpoint;
	context = zmq_ctx_new();
	void *client = zmq_socket(context, ZMQ_REQ);
	CHECK(zmq_bind(client, count > 1 ? words[1] : "tcp://127.0.0.1:*") == 0);
	CHECK(zmq_getsockopt(client, ZMQ_LAST_ENDPOINT, endpoint, &size) == 0);
	pthread_create(&server, NULL, serve, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(zmq_send(client, "hello", SIZE, 0) == SIZE);
		CHECK(zmq_recv(client, text, sizeof text, 0) == SIZE);
		CHECK(memcmp(text, "hello", SIZE) == 0);
	}
	pthread_join(server, NULL);
	zmq_close(client);
	zmq_ctx_term(context);
	puts("done");
	return 0;
}
