// Boost.Asio: a thread pool, timers, a strand, and an echo server with clients on the loopback interface.
// Needs libboost-dev.
#include <boost/asio.hpp>

#include <array>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

namespace asio = boost::asio;
using asio::ip::tcp;

struct Session : std::enable_shared_from_this<Session> {
	tcp::socket socket;
	std::array<char, 64> data;
	explicit Session(tcp::socket socket) : socket(std::move(socket)) {}
	void echo()
	{
		auto self = shared_from_this();
		socket.async_read_some(asio::buffer(data), [self](boost::system::error_code error, size_t size) {
			if (error)
				return;
			asio::async_write(self->socket, asio::buffer(self->data, size),
					  [self](boost::system::error_code error, size_t) {
						  if (!error)
							  self->echo();
					  });
		});
	}
};

static void accept(tcp::acceptor &acceptor, int left)
{
	acceptor.async_accept([&acceptor, left](boost::system::error_code error, tcp::socket socket) {
		if (error)
			return;
		std::make_shared<Session>(std::move(socket))->echo();
		if (left > 1)
			accept(acceptor, left - 1);
	});
}

int main()
{
	enum { CLIENTS = 3, ROUNDS = 4 };
	asio::io_context context;
	tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
	accept(acceptor, CLIENTS);
	asio::steady_timer timer(context, std::chrono::milliseconds(5));
	int fired = 0, posted = 0;
	timer.async_wait([&](boost::system::error_code error) { fired += !error; });
	auto strand = asio::make_strand(context);
	for (int i = 0; i < 10; i++)
		asio::post(strand, [&] { posted++; });
	std::vector<std::thread> threads;
	for (int i = 0; i < 2; i++)
		threads.emplace_back([&] { context.run(); });
	int answers = 0;
	asio::thread_pool pool(CLIENTS);
	std::mutex mutex;
	for (int client = 0; client < CLIENTS; client++)
		asio::post(pool, [&, client] {
			asio::io_context own;
			tcp::socket socket(own);
			socket.connect(acceptor.local_endpoint());
			for (int round = 0; round < ROUNDS; round++) {
				char word[8], back[8];
				int size = std::snprintf(word, sizeof word, "%d-%d", client, round);
				asio::write(socket, asio::buffer(word, size));
				asio::read(socket, asio::buffer(back, size));
				std::lock_guard<std::mutex> lock(mutex);
				answers += std::equal(word, word + size, back);
			}
		});
	pool.join();
	for (auto &thread : threads)
		thread.join();
	std::printf("answers %d, fired %d, posted %d\n", answers, fired, posted);
}
