//! Each compiler's convention, on lines in which `@` marks the column.

use unsnarl_source::{
    Accesses, Call, Language, Part, SourceFile,
    matching::{Instruction, place_of},
};

/// Returns the file with this statement in a function, and the column of its mark.
fn file(language: Language, statement: &str) -> (SourceFile, u32) {
    let column = statement.find('@').expect("a mark") + 1;
    let head = match language {
        Language::C | Language::Cpp => "void f(struct pool *pool) {\n",
        Language::Rust => "fn f(pool: &Pool) {\n",
    };
    let text = format!("{head}{}\n}}\n", statement.replacen('@', "", 1));
    (SourceFile::parse(language, text).expect("it parses"), column as u32)
}

fn accesses(language: Language, statement: &str) -> Option<Accesses> {
    let (file, column) = file(language, statement);
    file.accesses_at(2, column)
}

fn call(language: Language, statement: &str) -> Option<Call> {
    let (file, column) = file(language, statement);
    file.call_at(2, column)
}

/// Returns the place that an instruction at the mark accesses, if it is the only one there.
fn place(language: Language, statement: &str, writes: bool, size: u64) -> Option<String> {
    let group = [Instruction { writes, size }];
    place_of(&accesses(language, statement)?, &group, 0, &mut |_| None)
}

fn read(language: Language, statement: &str) -> String {
    place(language, statement, false, 4).unwrap_or_else(|| panic!("nothing is read at {statement}"))
}

fn written(language: Language, statement: &str) -> String {
    place(language, statement, true, 4).unwrap_or_else(|| panic!("nothing is written at {statement}"))
}

fn receiver(language: Language, statement: &str) -> String {
    let found = call(language, statement).unwrap_or_else(|| panic!("no call at {statement}"));
    found.receiver.unwrap_or_else(|| panic!("no receiver at {statement}"))
}

/// The places that may be read at the mark.
fn loads(language: Language, statement: &str) -> Vec<String> {
    let found = accesses(language, statement).unwrap_or_else(|| panic!("nothing at {statement}"));
    found.loads.into_iter().map(|place| place.text.expect("a short name")).collect()
}

#[test]
fn gcc_points_at_operators() {
    for language in [Language::C, Language::Cpp] {
        assert_eq!(read(language, "int a = pool@->queued;"), "pool->queued");
        assert_eq!(read(language, "int a = pool->stats@.done + 1;"), "pool->stats.done");
        assert_eq!(read(language, "int a = pool->slots@[i + 1];"), "pool->slots[i + 1]");
        assert_eq!(read(language, "int a = @*p;"), "*p");
        assert_eq!(read(language, "return @total;"), "total");
        assert_eq!(read(language, "if (total @== 3) return;"), "total");
        assert_eq!(read(language, "@return total;"), "total");
        assert_eq!(read(language, "int a = pool@->slots[i];"), "pool->slots");
        assert_eq!(written(language, "pool->queued@--;"), "pool->queued");
        assert_eq!(read(language, "pool->queued@--;"), "pool->queued");
        assert_eq!(written(language, "@++(*pool->count);"), "*pool->count");
        assert_eq!(written(language, "pool->next @= other->next;"), "pool->next");
        assert_eq!(read(language, "*pool @= *other;"), "*other");
        assert_eq!(written(language, "(pool->sum) @+= 2;"), "pool->sum");
        assert_eq!(read(language, "pool->sum @+= 2;"), "pool->sum");
    }
    assert_eq!(loads(Language::C, "int a = table@[i];"), ["table", "i", "table[i]"]);
    assert_eq!(loads(Language::C, "f(&pool->slots@[i]);"), ["i"], "an element's address is not read");
    assert_eq!(loads(Language::Cpp, "int a = *pool@->count;"), ["pool", "pool->count"]);
}

#[test]
fn clang_points_at_names() {
    for language in [Language::C, Language::Cpp] {
        assert_eq!(read(language, "int a = pool->@queued;"), "pool->queued");
        assert_eq!(read(language, "int a = pool->stats.@done;"), "pool->stats.done");
        assert_eq!(read(language, "int a = @counts[i];"), "counts[i]");
        assert_eq!(loads(language, "long a = pool->@slots[i];"), ["pool->slots", "pool->slots[i]"]);
        assert_eq!(loads(language, "pool->@slots[i] = 1;"), ["pool->slots"], "the element is written");
        assert_eq!(loads(language, "f(&pool->@slots[i]);"), ["pool->slots"]);
        assert_eq!(loads(language, "int a = pool->@slots[i].size;"), ["pool->slots"]);
        assert_eq!(loads(language, "int a = pool->@slots[i]->size;"), ["pool->slots", "pool->slots[i]"]);
    }
}

#[test]
fn macros_read_all_of_their_arguments() {
    let chain = loads(Language::C, "@assert(pool->stats->done == a[i].n);");
    let expected = ["pool", "pool->stats", "pool->stats->done", "a", "i", "a[i]", "a[i].n"];
    let expected: Vec<&str> = expected.into_iter().filter(|name| *name != "a[i]").collect();
    assert_eq!(chain, expected);
    assert_eq!(loads(Language::C, "@check(*p, sizeof *q);"), ["p", "*p"]);
}

#[test]
fn sizes_are_those_of_members_and_of_what_they_point_to() {
    let part =
        |statement| accesses(Language::C, statement).and_then(|found| found.loads.last()?.part.clone());
    assert_eq!(part("int a = pool@->queued;"), Some(Part::Named("queued".into())));
    assert_eq!(part("int a = pool->slots@[i];"), Some(Part::Inside("slots".into())));
    assert_eq!(part("int a = @*p;"), Some(Part::Inside("p".into())));
    assert_eq!(part("int a = pool->rows[i]@[j];"), None, "what is in rows[i] is not known by a name");
}

#[test]
fn constructors_write_their_members() {
    let text = "struct Pool {\n  Pool(int n) : queued_(n) {}\n  int queued_, active_ = 0;\n};\n";
    let file = SourceFile::parse(Language::Cpp, text.to_owned()).expect("it parses");
    let written = |line, column| file.accesses_at(line, column)?.store?.text;
    assert_eq!(written(2, 17).as_deref(), Some("queued_"));
}

#[test]
fn calls_act_on_their_receiver_or_first_argument() {
    let of = |statement| receiver(Language::C, statement);
    assert_eq!(of("@pthread_mutex_lock(&pool->guard);"), "pool->guard");
    assert_eq!(of("pthread_mutex_lock@(&pool->guard);"), "pool->guard");
    assert_eq!(of("while (@pthread_cond_wait(&q->ready, &q->lock)) ;"), "q->ready");
    assert_eq!(of("@pthread_mutex_lock((pthread_mutex_t *)&locks[i]);"), "locks[i]");
    assert_eq!(of("@pthread_mutex_lock(*held);"), "*held");
    assert_eq!(of("int a = @atomic_load(counter);"), "counter");
    let of = |statement| receiver(Language::Cpp, statement);
    assert_eq!(of("@mutex_.lock();"), "mutex_");
    assert_eq!(of("pool->@mutex.lock();"), "pool->mutex");
    assert_eq!(of("this->ready_.@notify_one();"), "this->ready_");
    assert_eq!(of("std::lock_guard<std::mutex> @guard(mutex_);"), "mutex_");
    assert_eq!(of("std::unique_lock<std::mutex> @guard{pool->mutex};"), "pool->mutex");
    assert_eq!(of("std::lock_guard<std::mutex> guard(mutex_@);"), "mutex_");
    assert_eq!(of("std::unique_lock<std::mutex> guard{pool->mutex@};"), "pool->mutex");
    assert_eq!(of("ready_.notify_one@();"), "ready_");
    let both = call(Language::Cpp, "std::scoped_lock @both(a, b);").expect("a constructor");
    assert_eq!((both.receiver, both.function.as_deref()), (None, Some("scoped_lock")));
}

#[test]
fn rustc_points_at_starts() {
    let language = Language::Rust;
    assert_eq!(read(language, "@book.stock -= 1;"), "book.stock");
    assert_eq!(written(language, "@book.stock -= 1;"), "book.stock");
    assert_eq!(read(language, "let a = @self.table[3].next;"), "self.table[3].next");
    assert_eq!(written(language, "@*total += 1;"), "*total");
    assert_eq!(written(language, "@COUNT = 2;"), "COUNT");
    assert_eq!(loads(language, "let a = @self.head.next;"), ["self", "self.head", "self.head.next"]);
    assert_eq!(loads(language, "let a = @*self.head;"), ["self", "self.head", "*self.head"]);
    assert_eq!(loads(language, "let n = @self.items.len();"), ["self", "self.items"]);
    assert_eq!(place(language, "let n = @self.items.len();", true, 8), None, "the result is written");
    assert_eq!(place(language, "let sum = @a.x + b.y;", true, 8), None, "the result is written");
    assert_eq!(accesses(language, "@assert_eq!(pool.queued, 0);"), None, "a macro");
    assert_eq!(accesses(language, "assert_eq!(@pool.queued, 0);"), None, "an argument is a list of words");
    let of = |statement| receiver(language, statement);
    assert_eq!(of("let mut book = @ledger.lock().unwrap();"), "ledger");
    assert_eq!(of("@self.count.fetch_add(1, Ordering::SeqCst);"), "self.count");
    assert_eq!(of("self.count.@fetch_add(1, Ordering::SeqCst);"), "self.count");
    assert_eq!(of("let book = ledger.@lock().unwrap();"), "ledger");
    assert_eq!(of("let g = @Mutex::lock(&pool.jobs);"), "pool.jobs");
}

#[test]
fn calls_are_known_by_their_text_and_function() {
    let of = |language, statement| {
        let found = call(language, statement).expect("a call");
        (found.text.unwrap_or_default(), found.function.unwrap_or_default())
    };
    let both = |text: &str, function: &str| (text.to_owned(), function.to_owned());
    assert_eq!(
        of(Language::C, "if (@pthread_mutex_lock(&m)) abort();"),
        both("pthread_mutex_lock(&m)", "pthread_mutex_lock")
    );
    assert_eq!(of(Language::Cpp, "@jobs.push_back(job);"), both("jobs.push_back(job)", "push_back"));
    assert_eq!(
        of(Language::Cpp, "std::lock_guard<std::mutex> @guard(mutex_);"),
        both("guard(mutex_)", "lock_guard")
    );
    assert_eq!(of(Language::Cpp, "std::unique_lock @lock{pool->mutex};").1, "unique_lock");
    assert_eq!(of(Language::Rust, "@self.jobs.lock().unwrap();"), both("self.jobs.lock()", "lock"));
    assert_eq!(of(Language::Rust, "tx.@send(job).unwrap();"), both("tx.send(job)", "send"));
    assert_eq!(of(Language::Rust, "@Arc::clone(&jobs);"), both("Arc::clone(&jobs)", "clone"));
}

#[test]
fn other_places_have_no_name() {
    assert_eq!(place(Language::C, "int a = p->a @== 0 && p->b == 0;", false, 4), None);
    assert_eq!(accesses(Language::C, "int a = po@ol->queued;"), None, "not the start of anything");
    assert_eq!(place(Language::Rust, "let a = @pool.get().len;", false, 4), Some("pool".into()));
    assert_eq!(accesses(Language::C, "@"), None);
}
