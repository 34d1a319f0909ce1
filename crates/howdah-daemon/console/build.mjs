// Builds the page into built/, which is committed; with --compare it says whether what is there is what would be built.
import { build } from "esbuild";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const MOST_BYTES = 150 * 1024;
const here = dirname(fileURLToPath(import.meta.url));
const built = join(here, "built");
const licence = readFileSync(join(here, "node_modules/uplot/LICENSE"), "utf8").trim();
const result = await build({
  absWorkingDir: here,
  entryPoints: { console: "src/main.ts", style: "src/style.css" },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  banner: {
    js: `/* Howdah: MIT OR Apache-2.0. uPlot, which is in here:\n${licence}\n*/`,
    css: `/* Howdah: MIT OR Apache-2.0; uPlot: MIT, see console.js */`,
  },
  outdir: built,
  write: false,
});
const files = new Map([["index.html", readFileSync(join(here, "src/index.html"), "utf8")]]);
for (const { path, text } of result.outputFiles) files.set(path.slice(built.length + 1), text);
const bytes = [...files.values()].reduce((sum, text) => sum + Buffer.byteLength(text), 0);
if (bytes > MOST_BYTES) {
  console.error(`the page has ${bytes} bytes, and may have ${MOST_BYTES}`);
  process.exit(1);
}
if (process.argv.includes("--compare")) {
  const known = readdirSync(built).sort().join(" ");
  const wanted = [...files.keys()].sort().join(" ");
  const differing = [...files].filter(([name, text]) => readFileSync(join(built, name), "utf8") !== text);
  if (known !== wanted || differing.length > 0) {
    console.error(`crates/howdah-daemon/console/built is not what its sources say (${differing.map(([name]) => name)}): run 'make console' and commit it`);
    process.exit(1);
  }
  console.log(`the page is what its sources say: ${bytes} bytes`);
} else {
  mkdirSync(built, { recursive: true });
  for (const [name, text] of files) writeFileSync(join(built, name), text);
  console.log(`built ${bytes} bytes`);
}
