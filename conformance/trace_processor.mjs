// Perfetto's trace processor, which its page has as WebAssembly, as a program: messages `TraceProcessorRpcStream` on stdin,
// its answers on stdout; each after its length (4 bytes, little endian).
//
//     node trace_processor.mjs FOLDER     a folder with `engine_bundle.js` and `trace_processor.wasm`
import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";

const own = process;
const folder = own.argv[2];
const read = (name) => fs.readFileSync(path.join(folder, path.basename(String(name))));

// Names that the bundle finds in a worker of a browser.
class FileRequest {
  open(method, name) {
    this.name = name;
  }
  send() {
    this.response = new Uint8Array(read(this.name)).buffer;
  }
}
Object.assign(globalThis, {
  self: globalThis,
  WorkerGlobalScope: Object,
  XMLHttpRequest: FileRequest,
  location: { href: "http://localhost/engine_bundle.js" },
});
console.log = console.warn = (...words) => own.stderr.write(words.join(" ") + "\n");
const bundle = read("engine_bundle.js").toString();
globalThis.process = undefined;
vm.runInThisContext(bundle, { filename: "engine_bundle.js" });
globalThis.process = own;
// The bundle waits for a promise when it is compiled, and after that for messages.
await new Promise((done) => setTimeout(done, 0));

const { port1, port2 } = new MessageChannel();
globalThis.onmessage({ data: port2 });
port1.onmessage = ({ data }) => {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(data.length);
  own.stdout.write(length);
  own.stdout.write(data);
};
let held = Buffer.alloc(0);
own.stdin.on("data", (bytes) => {
  held = Buffer.concat([held, bytes]);
  while (held.length >= 4 && held.length >= 4 + held.readUInt32LE(0)) {
    const end = 4 + held.readUInt32LE(0);
    port1.postMessage(new Uint8Array(held.subarray(4, end)));
    held = held.subarray(end);
  }
});
own.stdin.on("end", () => port1.close());
