// Workers count words of documents in a shared index on the heap. The number of words is kept without the lock.
#include <cassert>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

class Index {
 public:
  void add(const std::string &word) {
    std::lock_guard<std::mutex> guard(mutex_);
    words_.push_back(word);
  }

  void finish(int count) {
#ifdef FIXED
    std::lock_guard<std::mutex> guard(mutex_);
#endif
    int before = total_;
    if (count < 0) return;
    total_ = before + count;
    documents_++;
  }

  int total() const { return total_; }
  std::size_t size() const { return words_.size(); }

 private:
  std::mutex mutex_;
  std::vector<std::string> words_;
  int total_ = 0;
  int documents_ = 0;
};

static int read_document(Index &index, int document) {
  int count = 0;
  for (int word = 0; word <= document % 2; word++, count++) index.add("word" + std::to_string(word));
  return count;
}

int main() {
  auto index = std::make_shared<Index>();
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 2; worker++)
    workers.emplace_back([index, worker] {
      for (int document = worker; document < 4; document += 2)
        index->finish(read_document(*index, document));
    });
  for (auto &worker : workers) worker.join();
  assert(static_cast<std::size_t>(index->total()) == index->size());
}
