//! Each compiler's convention, on lines in which `@` marks the column.

use unsnarl_source::{Expression, Language, SourceFile, Subject};

/// Returns the expression at the mark in this statement, which is put into a function.
fn at(language: Language, statement: &str, subject: Subject) -> Option<Expression> {
    let column = statement.find('@').expect("a mark") + 1;
    let head = match language {
        Language::C | Language::Cpp => "void f(struct pool *pool) {\n",
        Language::Rust => "fn f(pool: &Pool) {\n",
    };
    let text = format!("{head}{}\n}}\n", statement.replacen('@', "", 1));
    let file = SourceFile::parse(language, text).expect("it parses");
    file.expression_at(2, column as u32, subject)
}

fn certain(language: Language, statement: &str, subject: Subject) -> String {
    let found = at(language, statement, subject).unwrap_or_else(|| panic!("nothing at {statement}"));
    assert!(found.is_certain, "{statement}: {found:?}");
    found.text
}

const READ: Subject = Subject::Read(4);
const POINTER: Subject = Subject::Read(8);

#[test]
fn gcc_points_at_operators() {
    for language in [Language::C, Language::Cpp] {
        let read = |statement| certain(language, statement, READ);
        assert_eq!(read("int a = pool@->queued;"), "pool->queued");
        assert_eq!(read("int a = pool->stats@.done + 1;"), "pool->stats.done");
        assert_eq!(read("int a = pool->slots@[i + 1];"), "pool->slots[i + 1]");
        assert_eq!(read("int a = @*p;"), "*p");
        assert_eq!(read("return @total;"), "total");
        let pointer = |statement| certain(language, statement, POINTER);
        assert_eq!(pointer("int a = pool@->slots[i];"), "pool->slots");
        let write = |statement| certain(language, statement, Subject::Write);
        assert_eq!(write("pool->queued@--;"), "pool->queued");
        assert_eq!(write("@++(*pool->count);"), "*pool->count");
        assert_eq!(write("pool->next @= other->next;"), "pool->next");
        assert_eq!(write("(pool->sum) @+= 2;"), "pool->sum");
    }
}

#[test]
fn clang_points_at_names() {
    for language in [Language::C, Language::Cpp] {
        let read = |statement| certain(language, statement, READ);
        assert_eq!(read("int a = pool->@queued;"), "pool->queued");
        assert_eq!(read("int a = pool->stats.@done;"), "pool->stats.done");
        assert_eq!(read("int a = pool->@slots[i];"), "pool->slots[i]");
        assert_eq!(read("int a = @counts[i];"), "counts[i]");
        let base_or_element = at(language, "long a = pool->@slots[i];", POINTER).expect("an expression");
        assert!(!base_or_element.is_certain, "{base_or_element:?}");
    }
}

#[test]
fn calls_act_on_their_receiver_or_first_argument() {
    let call = |statement| certain(Language::C, statement, Subject::Call);
    assert_eq!(call("@pthread_mutex_lock(&pool->guard);"), "pool->guard");
    assert_eq!(call("pthread_mutex_lock@(&pool->guard);"), "pool->guard");
    assert_eq!(call("while (@pthread_cond_wait(&q->ready, &q->lock)) ;"), "q->ready");
    assert_eq!(call("@pthread_mutex_lock((pthread_mutex_t *)&locks[i]);"), "locks[i]");
    assert_eq!(call("int a = @atomic_load(counter);"), "counter");
    let call = |statement| certain(Language::Cpp, statement, Subject::Call);
    assert_eq!(call("@mutex_.lock();"), "mutex_");
    assert_eq!(call("pool->@mutex.lock();"), "pool->mutex");
    assert_eq!(call("this->ready_.@notify_one();"), "this->ready_");
    assert_eq!(call("std::lock_guard<std::mutex> @guard(mutex_);"), "mutex_");
    assert_eq!(call("std::unique_lock<std::mutex> @guard{pool->mutex};"), "pool->mutex");
    assert_eq!(call("std::lock_guard<std::mutex> guard(mutex_@);"), "mutex_");
    assert_eq!(call("std::unique_lock<std::mutex> guard{pool->mutex@};"), "pool->mutex");
    assert_eq!(call("ready_.notify_one@();"), "ready_");
    assert_eq!(at(Language::Cpp, "std::scoped_lock @both(a, b);", Subject::Call), None);
}

#[test]
fn rustc_points_at_starts() {
    let language = Language::Rust;
    assert_eq!(certain(language, "@book.stock -= 1;", READ), "book.stock");
    assert_eq!(certain(language, "@book.stock -= 1;", Subject::Write), "book.stock");
    assert_eq!(certain(language, "let a = @self.table[3].next;", READ), "self.table[3].next");
    assert_eq!(certain(language, "@*total += 1;", Subject::Write), "*total");
    assert_eq!(certain(language, "@COUNT = 2;", Subject::Write), "COUNT");
    let several = at(language, "let a = @self.head.next;", POINTER).expect("an expression");
    assert!(!several.is_certain, "the load of head has the same column");
    let call = |statement| certain(language, statement, Subject::Call);
    assert_eq!(call("let mut book = @ledger.lock().unwrap();"), "ledger");
    assert_eq!(call("@self.count.fetch_add(1, Ordering::SeqCst);"), "self.count");
    assert_eq!(call("self.count.@fetch_add(1, Ordering::SeqCst);"), "self.count");
    assert_eq!(call("let book = ledger.@lock().unwrap();"), "ledger");
    assert_eq!(call("let g = @Mutex::lock(&pool.jobs);"), "pool.jobs");
}

#[test]
fn called_function_is_named() {
    let function = |language, statement| at(language, statement, Subject::Call).expect("a call").function;
    assert_eq!(function(Language::C, "@pthread_mutex_lock(&m);").as_deref(), Some("pthread_mutex_lock"));
    assert_eq!(function(Language::Cpp, "@mutex_.lock();").as_deref(), Some("lock"));
    assert_eq!(
        function(Language::Cpp, "std::lock_guard<std::mutex> @guard(mutex_);").as_deref(),
        Some("lock_guard")
    );
    assert_eq!(
        function(Language::Cpp, "std::unique_lock @lock{pool->mutex};").as_deref(),
        Some("unique_lock")
    );
    assert_eq!(function(Language::Rust, "@self.jobs.lock().unwrap();").as_deref(), Some("lock"));
    assert_eq!(function(Language::Rust, "@Arc::clone(&jobs);").as_deref(), Some("clone"));
}

#[test]
fn other_places_have_no_name() {
    assert_eq!(at(Language::C, "int a = p->a @== 0 && p->b == 0;", READ), None);
    assert_eq!(at(Language::C, "@assert(p->a == 0);", READ), None);
    assert_eq!(at(Language::C, "int a = po@ol->queued;", READ), None, "not the start of anything");
    assert_eq!(at(Language::Rust, "let a = @pool.get().len;", READ), None);
    assert_eq!(at(Language::C, "@", READ), None);
}
