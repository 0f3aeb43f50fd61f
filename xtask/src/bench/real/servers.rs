//! Servers with a client on the loopback interface: the client gets correct answers under every schedule, and the
//! recording replays without the client.

use crate::tools::{self, Tool};
use crate::workspace::output;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Connections of a client.
const CONNECTIONS: usize = 4;
/// Number of keys that are stored and read back.
const KEYS: usize = 40;

pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) tools: &'static [Tool],
    /// Writes what the server needs to this directory, and returns the command for this port.
    command: fn(&Path, u16) -> Result<Vec<String>>,
    talk: fn(&mut [Connection]) -> Result<()>,
    end: EndOfServer,
}

/// The way to end the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndOfServer {
    /// The client's last request asks for it.
    Requested,
    /// By SIGQUIT, after the last answer.
    Signal,
}

pub(super) const SERVERS: [Server; 4] = [
    Server {
        name: "memcached",
        tools: tools::REAL,
        command: |_, port| Ok(words(&format!("memcached -l 127.0.0.1 -p {port} -U 0 -t 4 -c 64 -u root -A"))),
        talk: talk_to_memcached,
        end: EndOfServer::Requested,
    },
    Server {
        name: "redis",
        tools: tools::REAL,
        command: |_, port| Ok(redis(port, "no")),
        talk: talk_to_redis,
        end: EndOfServer::Requested,
    },
    Server {
        name: "redis, threaded reads",
        tools: tools::REAL,
        command: |_, port| Ok(redis(port, "yes")),
        talk: talk_to_redis,
        end: EndOfServer::Requested,
    },
    Server {
        name: "nginx, thread pool",
        tools: tools::NGINX,
        command: nginx,
        talk: talk_to_nginx,
        end: EndOfServer::Signal,
    },
];

fn redis(port: u16, threaded_reads: &str) -> Vec<String> {
    let mut command = words(&format!(
        "redis-server --port {port} --bind 127.0.0.1 --io-threads 4 --io-threads-do-reads {threaded_reads} --save"
    ));
    command.push(String::new());
    command
}

/// The content of the file that nginx serves.
fn served_file() -> Vec<u8> {
    (0..200_000u32).map(|n| (n * n % 251) as u8).collect()
}

fn nginx(directory: &Path, port: u16) -> Result<Vec<String>> {
    let place = directory.join("nginx");
    std::fs::create_dir_all(&place)?;
    std::fs::write(place.join("file"), served_file())?;
    let here = place.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {here}/{kind};\n"))
        .collect();
    let configuration = format!(
        "daemon off; master_process off; user root; pid {here}/pid; error_log {here}/errors;\n\
         thread_pool default threads=4;\nevents {{}}\nhttp {{ access_log off; aio threads; {temporary}\n\
         server {{ listen 127.0.0.1:{port}; root {here}; }} }}\n"
    );
    std::fs::write(place.join("configuration"), configuration)?;
    Ok(words(&format!("/usr/sbin/nginx -c {here}/configuration")))
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// The tool under which servers run.
pub(super) struct Host<'a> {
    pub(super) unsnarl: &'a Path,
    pub(super) directory: &'a Path,
}

impl Host<'_> {
    fn trace(&self) -> PathBuf {
        self.directory.join("server.snarl")
    }

    /// Runs it under control by a random schedule; returns its duration.
    pub(super) fn record(&self, server: &Server, seed: u64) -> Result<Duration> {
        let unsnarl = self.unsnarl.display().to_string();
        let mut before = words(&format!("{unsnarl} record --timeout 120s --seed {seed} -o"));
        before.extend([self.trace().display().to_string(), "--".into()]);
        self.serve(server, &before)
    }

    /// Returns whether the last recording replays event for event, without a client.
    pub(super) fn replays(&self) -> Result<bool> {
        let mut replay = Command::new(self.unsnarl);
        replay.args(["replay", "--json"]).arg(self.trace()).current_dir(self.directory).stdin(Stdio::null());
        let report: serde_json::Value = serde_json::from_slice(&replay.output()?.stdout).unwrap_or_default();
        Ok(report["identical"] == true)
    }

    /// Runs it with this command prefix; returns the duration from start to end.
    pub(super) fn serve(&self, server: &Server, before: &[String]) -> Result<Duration> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let served = (server.command)(self.directory, port)?;
        let command = [before, &served].concat();
        let start = Instant::now();
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .current_dir(self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| command.join(" "))?;
        let report = connect(port, &mut child).and_then(|mut connections| (server.talk)(&mut connections));
        match (&report, server.end) {
            (Err(_), _) => drop(child.kill()),
            (Ok(()), EndOfServer::Signal) => send_quit(child.id(), Path::new(&served[0]))?,
            (Ok(()), EndOfServer::Requested) => {}
        }
        let Output { status, stderr, .. } = child.wait_with_output()?;
        report.with_context(|| String::from_utf8_lossy(&stderr).into_owned())?;
        ensure!(status.success(), "{status}: {}", String::from_utf8_lossy(&stderr));
        Ok(start.elapsed())
    }
}

/// Sends SIGQUIT to the server: the process itself, or a child of the command that runs it.
fn send_quit(process: u32, program: &Path) -> Result<()> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"))?;
    let candidates = std::iter::once(process.to_string()).chain(children.split(' ').map(str::to_owned));
    let is_server =
        |id: &String| std::fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|executed| executed == program);
    let servers: Vec<String> = candidates.filter(is_server).collect();
    ensure!(!servers.is_empty(), "there is no process of the server");
    output(Command::new("kill").arg("-QUIT").args(&servers), "kill")?;
    Ok(())
}

/// Connects as soon as the server listens.
fn connect(port: u16, server: &mut std::process::Child) -> Result<Vec<Connection>> {
    let until = Instant::now() + Duration::from_secs(60);
    let first = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(_) if server.try_wait()?.is_some() => bail!("the server ended before it served"),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let others = (1..CONNECTIONS).map(|_| TcpStream::connect(("127.0.0.1", port)));
    std::iter::once(Ok(first)).chain(others).map(|stream| Connection::new(stream?)).collect()
}

struct Connection {
    to: TcpStream,
    from: BufReader<TcpStream>,
}

impl Connection {
    fn new(stream: TcpStream) -> Result<Self> {
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { from: BufReader::new(stream.try_clone()?), to: stream })
    }

    fn send(&mut self, text: &str) -> Result<()> {
        Ok(self.to.write_all(text.as_bytes())?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    fn expect(&mut self, line: &str) -> Result<()> {
        let got = self.line()?;
        ensure!(got == line, "the server said `{got}` instead of `{line}`");
        Ok(())
    }
}

fn talk_to_memcached(connections: &mut [Connection]) -> Result<()> {
    for key in 0..KEYS {
        let connection = &mut connections[key % CONNECTIONS];
        let value = format!("value of {key}");
        connection.send(&format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len()))?;
        connection.expect("STORED")?;
    }
    for key in 0..KEYS {
        let connection = &mut connections[(key + 1) % CONNECTIONS];
        let value = format!("value of {key}");
        connection.send(&format!("get k{key}\r\n"))?;
        connection.expect(&format!("VALUE k{key} 0 {}", value.len()))?;
        connection.expect(&value)?;
        connection.expect("END")?;
    }
    connections[0].send("shutdown\r\n")
}

fn talk_to_redis(connections: &mut [Connection]) -> Result<()> {
    for key in 0..KEYS {
        let connection = &mut connections[key % CONNECTIONS];
        connection.send(&format!("SET k{key} value-{key}\r\n"))?;
        connection.expect("+OK")?;
    }
    for key in 0..KEYS {
        let connection = &mut connections[(key + 1) % CONNECTIONS];
        let value = format!("value-{key}");
        connection.send(&format!("GET k{key}\r\n"))?;
        connection.expect(&format!("${}", value.len()))?;
        connection.expect(&value)?;
    }
    connections[0].send("SHUTDOWN NOSAVE\r\n")?;
    // Nothing more may follow.
    let mut rest = Vec::new();
    let _ = connections[0].from.read_to_end(&mut rest);
    Ok(())
}

fn talk_to_nginx(connections: &mut [Connection]) -> Result<()> {
    for connection in &mut *connections {
        connection.send("GET /file HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")?;
    }
    for connection in connections {
        let mut answer = Vec::new();
        connection.from.read_to_end(&mut answer)?;
        let header =
            answer.windows(4).position(|end| end == b"\r\n\r\n").context("an answer with a header")?;
        ensure!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..header]));
        ensure!(answer[header + 4..] == served_file(), "the file has {} bytes", answer.len() - header - 4);
    }
    Ok(())
}
