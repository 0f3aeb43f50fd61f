// A document that several editors change, with a history for undo. The error: an edit changes the text in one critical
// section and the history in another, so that both may get a different order.
#include <cassert>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct Edit {
    int author;
    char letter;
};

class Text {
public:
    void append(char letter)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        letters_.push_back(letter);
    }

    char remove_last()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        char letter = letters_.back();
        letters_.pop_back();
        return letter;
    }

    std::string copy() const
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return letters_;
    }

private:
    mutable std::mutex mutex_;
    std::string letters_;
};

class History {
public:
    void push(Edit edit)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        edits_.push_back(edit);
    }

    Edit pop()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        Edit edit = edits_.back();
        edits_.pop_back();
        return edit;
    }

    bool empty() const
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return edits_.empty();
    }

private:
    mutable std::mutex mutex_;
    std::vector<Edit> edits_;
};

class Document {
public:
    void type(const Edit &edit)
    {
        text_.append(edit.letter);
        history_.push(edit);
    }

    void undo_all()
    {
        while (!history_.empty()) {
            Edit edit = history_.pop();
            char removed = text_.remove_last();
            assert(removed == edit.letter);
        }
    }

    std::string text() const { return text_.copy(); }

private:
    Text text_;
    History history_;
};

class Editor {
public:
    Editor(Document &document, int number, std::string words)
        : document_(document), number_(number), words_(std::move(words))
    {
    }

    void write()
    {
        for (char letter : words_)
            document_.type({number_, letter});
    }

private:
    Document &document_;
    int number_;
    std::string words_;
};

int main()
{
    Document document;
    std::vector<Editor> editors;
    int number = 0;
    for (const char *words : {"abc", "xyz"})
        editors.emplace_back(document, number++, words);
    std::vector<std::thread> threads;
    for (auto &editor : editors)
        threads.emplace_back([&editor] { editor.write(); });
    for (auto &thread : threads)
        thread.join();
    std::printf("%zu letters\n", document.text().size());
    document.undo_all();
    return 0;
}
