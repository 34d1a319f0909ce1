// One instance of the laboratory. Answers each message {id, call, ...} with {id, well, value}.
"use strict";
let lab;

function give(bytes) {
  const at = lab.lab_in(bytes.length);
  new Uint8Array(lab.memory.buffer, at, bytes.length).set(bytes);
}

function answer() {
  return new Uint8Array(lab.memory.buffer, lab.lab_out(), lab.lab_out_len()).slice();
}

const text = (bytes) => new TextDecoder().decode(bytes);

const CALLS = {
  async open({ module, request }) {
    lab = (await WebAssembly.instantiate(module, {})).exports;
    give(new TextEncoder().encode(request));
    return lab.lab_open();
  },
  run: ({ index }) => lab.lab_run(index),
  add({ index, result, seconds }) {
    give(result);
    return lab.lab_add(index, seconds);
  },
  report: () => lab.lab_report(),
};

onmessage = async ({ data }) => {
  let well = false;
  let value;
  try {
    well = (await CALLS[data.call](data)) === 1;
    value = answer();
  } catch (error) {
    // A check of the simulator that failed has left its words.
    const words = lab ? text(answer()) : "";
    value = new TextEncoder().encode(words || String(error));
    postMessage({ id: data.id, well: false, dead: true, value });
    return;
  }
  postMessage({ id: data.id, well, value }, [value.buffer]);
};
