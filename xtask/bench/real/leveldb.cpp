// LevelDB on disk: threads that write, read and compact one database. Needs libleveldb-dev.
#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#define CHECK(condition)                                             \
	do {                                                         \
		if (!(condition)) {                                  \
			std::fprintf(stderr, "%s\n", #condition);    \
			std::abort();                                \
		}                                                    \
	} while (0)

int main()
{
	leveldb::Options options;
	options.create_if_missing = true;
	options.write_buffer_size = 64 << 10;
	leveldb::DestroyDB("database", options);
	leveldb::DB *database;
	CHECK(leveldb::DB::Open(options, "database", &database).ok());
	std::vector<std::thread> threads;
	for (int thread = 0; thread < 3; thread++)
		threads.emplace_back([=] {
			for (int i = 0; i < 40; i++) {
				leveldb::WriteBatch batch;
				std::string key = std::to_string(thread) + "-" + std::to_string(i);
				batch.Put(key, std::string(1000, static_cast<char>('a' + thread)));
				batch.Put("last-" + std::to_string(thread), key);
				CHECK(database->Write(leveldb::WriteOptions(), &batch).ok());
				std::string value;
				CHECK(database->Get(leveldb::ReadOptions(), key, &value).ok() && value.size() == 1000);
			}
		});
	for (auto &thread : threads)
		thread.join();
	database->CompactRange(nullptr, nullptr);
	int count = 0;
	leveldb::Iterator *iterator = database->NewIterator(leveldb::ReadOptions());
	for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next())
		count++;
	delete iterator;
	delete database;
	std::printf("%d keys\n", count);
}
