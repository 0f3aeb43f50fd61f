//! Input from outside the program is recorded, and a replay does not need its source.

mod common;

use common::{Place, UNSNARL, printed};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
};

/// Creates a place with this program, without instrumentation.
#[track_caller]
fn built(name: &str, source: &str) -> Place {
    let place = Place::new(name);
    place.compile("program", source, &["gcc"], &[]);
    place
}

/// Records the program with its descriptor 7 as our standard input.
fn reading_at_seven(place: &Place, options: &str) -> Command {
    let script = format!("exec \"$0\" record {options} -o t.snarl -- ./program 7<&0 </dev/null");
    place.command("sh", &["-c", &script, UNSNARL])
}

#[track_caller]
fn replays(place: &Place, label: &str) {
    let replayed = printed(&place.ends(&["replay", "--json", "t.snarl"]));
    assert!(replayed.contains("\"identical\": true"), "{label}: {replayed}");
}

const READER: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#define FD 7
static void *reader(void *unused)
{
    char word[16];
    ssize_t got;
    while ((got = read(FD, word, sizeof word)) > 0)
        printf("%.*s", (int)got, word);
    return unused;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, reader, NULL);
    pthread_join(thread, NULL);
    return 3;
}
"#;

#[test]
fn pipe_input_replays_without_the_pipe() {
    let place = built("pipe", READER);
    let (from, mut to) = std::io::pipe().expect("a pipe");
    let mut record = reading_at_seven(&place, "");
    record.stdin(from).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = record.spawn().expect("unsnarl runs");
    drop(record);
    to.write_all(b"hello, ").expect("a reader");
    to.write_all(b"this comes from outside").expect("a reader");
    drop(to);
    let recorded = child.wait_with_output().expect("unsnarl ends");
    assert!(printed(&recorded).contains("hello, this comes from outside"), "{}", printed(&recorded));

    replays(&place, "without its source");
    let shown = place.unsnarl(0, &["show", "t.snarl"]);
    assert!(shown.contains("bytes from pipe 7"), "{shown}");
}

const SERVER: &str = r#"
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
static int listener;
static void *serve(void *unused)
{
    struct pollfd fds = {.fd = listener, .events = POLLIN};
    struct sockaddr_in peer;
    socklen_t size = sizeof peer;
    char word[16] = "";
    poll(&fds, 1, -1);
    int fd = accept(listener, (struct sockaddr *)&peer, &size);
    ssize_t got = recv(fd, word, sizeof word - 1, 0);
    printf("%d %zd %s %d\n", fd, got, word, peer.sin_family == AF_INET);
    send(fd, word, got, 0);
    close(fd);
    return unused;
}
int main(void)
{
    pthread_t thread;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1))
        return 1;
    getsockname(listener, (struct sockaddr *)&address, &size);
    FILE *port = fopen("port.new", "w");
    fprintf(port, "%d\n", ntohs(address.sin_port));
    fclose(port);
    rename("port.new", "port");
    pthread_create(&thread, NULL, serve, NULL);
    pthread_join(thread, NULL);
    return 0;
}
"#;

#[test]
fn server_replays_without_its_client() {
    let place = built("server", SERVER);
    let record = place.start(&["record", "-o", "t.snarl", "--", "./program"]);
    let port = loop {
        if let Ok(port) = fs::read_to_string(place.path("port")) {
            break port.trim().parse::<u16>().expect("a port");
        }
        std::thread::yield_now();
    };
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("a server");
    client.write_all(b"hello").expect("a server");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert_eq!(answer, "hello");
    let recorded = record.wait_with_output().expect("unsnarl ends");
    assert!(printed(&recorded).contains(" 5 hello 1"), "{}", printed(&recorded));
    replays(&place, "without its source");
}

const CONFIGURED: &str = r#"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
static int listener;
static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof value;
    return getsockopt(fd, level, name, &value, &size) == 0 ? value : -errno;
}
static void *serve(void *unused)
{
    int fd = accept(listener, NULL, NULL), on = 1, length = 0;
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    char word[16] = "";
    printf("nodelay %d", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    printf(" %d\n", option(fd, IPPROTO_TCP, TCP_NODELAY) != 0);
    printf("keepalive %d\n", setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on));
    printf("domain %d type %d protocol %d error %d\n", option(fd, SOL_SOCKET, SO_DOMAIN), option(fd, SOL_SOCKET, SO_TYPE),
           option(fd, SOL_SOCKET, SO_PROTOCOL), option(fd, SOL_SOCKET, SO_ERROR));
    printf("info %d", getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size));
    printf(" state %d\n", info.tcpi_state);
    poll(&readable, 1, -1);
    printf("there %d", ioctl(fd, FIONREAD, &length));
    printf(" %d\n", length);
    struct sockaddr_in name;
    size = sizeof name;
    printf("name %d", getsockname(fd, (struct sockaddr *)&name, &size));
    printf(" family %d", name.sin_family);
    printf(" peer %d\n", getpeername(fd, (struct sockaddr *)&name, &size));
    ssize_t got = recv(fd, word, sizeof word - 1, 0);
    printf("%zd %s\n", got, word);
    send(fd, word, got, 0);
    printf("shutdown %d\n", shutdown(fd, SHUT_RDWR));
    close(fd);
    return unused;
}
int main(void)
{
    pthread_t thread;
    int on = 1, ends[2];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    FILE *port = fopen("port.fixed", "r");
    if (port) {
        int number;
        if (fscanf(port, "%d", &number) == 1) address.sin_port = htons(number);
        fclose(port);
    }
    listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (pipe(ends) || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1))
        return 1;
    getsockname(listener, (struct sockaddr *)&address, &size);
    port = fopen("port.new", "w");
    fprintf(port, "%d\n", ntohs(address.sin_port));
    fclose(port);
    rename("port.new", "port");
    pthread_create(&thread, NULL, serve, NULL);
    pthread_join(thread, NULL);
    return 0;
}
"#;

/// In the replay no connection is made, and another process has the port.
#[test]
fn stand_in_for_a_socket_answers_like_it() {
    let place = built("configured", CONFIGURED);
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let number = free.local_addr().expect("an address").port();
    drop(free);
    place.write("port.fixed", number.to_string());
    let record = place.start(&["record", "-o", "t.snarl", "--", "./program"]);
    while fs::read_to_string(place.path("port")).is_err() {
        std::thread::yield_now();
    }
    let mut client = TcpStream::connect(("127.0.0.1", number)).expect("a server");
    client.write_all(b"hello").expect("a server");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    drop(client);
    let recorded = printed(&record.wait_with_output().expect("unsnarl ends"));
    for line in [
        "nodelay 0 1",
        "keepalive 0",
        "domain 2 type 1 protocol 6 error 0",
        "there 0 5",
        "5 hello",
        "shutdown 0",
    ] {
        assert!(recorded.contains(line), "{line}: {recorded}");
    }
    let taken = std::net::TcpListener::bind(("127.0.0.1", number));
    replays(&place, "without its client");
    drop(taken);
}

#[test]
fn wait_for_external_input_is_not_a_deadlock() {
    let place = built("wait", READER);
    let (from, to) = std::io::pipe().expect("a pipe");
    let mut record = reading_at_seven(&place, "--timeout 3s");
    record.stdin(from);
    let record = record.output().expect("unsnarl runs");
    drop(to);
    let report = printed(&record);
    assert_eq!(record.status.code(), Some(104), "{report}");
    assert!(report.contains("while it waited for something from outside"), "{report}");
    assert!(report.contains("thread 0.1 waits to read from a pipe"), "{report}");
}

const SIGNALLED: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile sig_atomic_t handled;
static void handle(int signal)
{
    handled = signal;
    close(creat("handled", 0600));
}
static void *waits(void *set)
{
    int signal = 0;
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    sigwait(set, &signal);
    printf("handled %d, awaited %d\n", (int)handled, signal);
    return NULL;
}
int main(void)
{
    pthread_t thread;
    sigset_t set;
    char process[16] = "";
    signal(SIGHUP, handle);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&thread, NULL, waits, &set);
    for (int i = 0; i < 5; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    if (readlink("/proc/self", process, sizeof process - 1) < 0)
        return 1;
    FILE *file = fopen("process.new", "w");
    fprintf(file, "%s\n", process);
    fclose(file);
    rename("process.new", "process");
    pthread_join(thread, NULL);
    return 0;
}
"#;

#[test]
fn external_signals_replay_without_their_sender() {
    let place = built("signals", SIGNALLED);
    for seed in 0..8 {
        let (process, handled) = (place.path("process"), place.path("handled"));
        let _ = (fs::remove_file(&process), fs::remove_file(&handled));
        let mut record =
            place.start(&["record", "--seed", &seed.to_string(), "-o", "t.snarl", "--", "./program"]);
        let mut there = |file: &Path| {
            while !file.exists() {
                assert!(record.try_wait().expect("a process").is_none(), "ended without {}", file.display());
                std::thread::yield_now();
            }
        };
        there(&process);
        let number = fs::read_to_string(&process).expect("a number");
        let send = |signal: &str| Command::new("kill").args([signal, number.trim()]).status();
        assert!(send("-HUP").expect("kill runs").success());
        there(&handled);
        assert!(send("-TERM").expect("kill runs").success());
        let recorded = record.wait_with_output().expect("unsnarl ends");
        assert!(printed(&recorded).contains("handled 1, awaited 15"), "{}", printed(&recorded));
        replays(&place, &format!("seed {seed}"));
    }
}
