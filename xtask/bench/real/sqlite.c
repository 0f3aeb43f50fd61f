/* SQLite on disk with a write-ahead log: threads that write and read by connections of their own. Needs libsqlite3-dev. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 3, ROWS = 6 };

static void run(sqlite3 *database, const char *statement)
{
	char *message = NULL;
	if (sqlite3_exec(database, statement, NULL, NULL, &message) != SQLITE_OK) {
		fprintf(stderr, "%s: %s\n", statement, message);
		exit(1);
	}
}

static sqlite3 *open_database(void)
{
	sqlite3 *database;
	if (sqlite3_open("database", &database) != SQLITE_OK)
		exit(2);
	sqlite3_busy_timeout(database, 1000000);
	return database;
}

static void *writer(void *number)
{
	sqlite3 *database = open_database();
	char statement[80];
	for (int i = 0; i < ROWS; i++) {
		snprintf(statement, sizeof statement, "INSERT INTO t VALUES (%d, %d)", *(int *)number, i);
		run(database, statement);
	}
	sqlite3_close(database);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	int numbers[THREADS];
	sqlite3_stmt *sum;
	unlink("database"), unlink("database-wal"), unlink("database-shm");
	sqlite3 *database = open_database();
	run(database, "PRAGMA journal_mode = WAL");
	run(database, "CREATE TABLE t (thread INTEGER, value INTEGER)");
	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		pthread_create(&threads[i], NULL, writer, &numbers[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	sqlite3_prepare_v2(database, "SELECT count(*), sum(value) FROM t", -1, &sum, NULL);
	if (sqlite3_step(sum) != SQLITE_ROW)
		return 3;
	printf("%d rows, sum %d\n", sqlite3_column_int(sum, 0), sqlite3_column_int(sum, 1));
	sqlite3_finalize(sum);
	sqlite3_close(database);
	return 0;
}
