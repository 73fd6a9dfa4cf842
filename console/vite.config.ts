import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../src/pegboard/gateway/console",
    emptyOutDir: true,
    // The policy of the page allows no inline script, style or data: URL of a script.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2023",
    cssTarget: "chrome123",
  },
});
