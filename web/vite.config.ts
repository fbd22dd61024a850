// Builds one self-contained HTML file: script and style are inline, and its policy allows them by their hashes.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

import { defineConfig, type Plugin } from "vite";

const hash = (text: string): string => `'sha256-${createHash("sha256").update(text, "utf8").digest("base64")}'`;

function onePage(): Plugin {
  return {
    name: "one-page",
    enforce: "post",
    generateBundle(_options, bundle) {
      let script = "";
      let style = "";
      for (const [name, piece] of Object.entries(bundle)) {
        if (piece.type === "chunk") script += piece.code;
        else if (name.endsWith(".css")) style += String(piece.source);
        delete bundle[name];
      }
      // Escapes text that would end the element or start a comment in it.
      script = script.trim().replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
      style = style.trim();
      const policy =
        `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; img-src data:; ` +
        "base-uri 'none'; form-action 'none'";
      const template = readFileSync("src/page.html", "utf8");
      const source = template
        .replace("@POLICY@", () => policy)
        .replace("@STYLE@", () => style)
        .replace("@SCRIPT@", () => script);
      this.emitFile({ type: "asset", fileName: "page.html", source });
    },
  };
}

export default defineConfig({
  plugins: [onePage()],
  build: {
    target: "es2022",
    outDir: "dist",
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    rollupOptions: { input: "src/main.ts", output: { format: "iife" } },
  },
});
