// Node.js: jobs in libuv's thread pool, and a worker thread.
const { Worker, isMainThread, parentPort } = require("worker_threads");
const zlib = require("zlib");
const crypto = require("crypto");

if (isMainThread) {
	const jobs = [];
	for (let i = 0; i < 4; i++) {
		jobs.push(new Promise((done) => zlib.deflate(Buffer.alloc(10000, i), (_, out) => done(out.length))));
		jobs.push(new Promise((done) => crypto.pbkdf2("a", "b" + i, 50, 8, "sha256", (_, key) => done(key.toString("hex")))));
	}
	const worker = new Worker(__filename);
	jobs.push(new Promise((done) => worker.on("message", done)));
	Promise.all(jobs).then((results) => console.log(results.join(" ")));
} else {
	parentPort.postMessage([1, 2, 3].map((n) => n * n).join("+"));
}
