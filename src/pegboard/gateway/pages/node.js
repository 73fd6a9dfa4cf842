// A phone's browser as a node: pairs by a code, proves its key, and answers what the gateway asks.

const CAPABILITIES = ["notify", "canvas", "location", "camera", "approve"];
const PROTOCOL = 1, LONGEST_WAIT_MS = 60000, MOST_NOTICES = 50, MOST_PIXELS = 1920;
const $ = (id) => document.getElementById(id);
const show = (id, shown) => { $(id).hidden = !shown; };
const state = (text) => { $("state").textContent = text; };
const base64 = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)));
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

class Refusal extends Error {
  constructor(code, message, hint = "") { super(message); this.code = code; this.hint = hint; }
}

// -- what is kept on this device ------------------------------------------------------------------

const database = () => new Promise((done, fail) => {
  const opening = indexedDB.open("pegboard-node", 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore("kept");
  opening.onsuccess = () => done(opening.result);
  opening.onerror = () => fail(opening.error);
});
const kept = async (mode, act) => {
  const db = await database();
  return new Promise((done, fail) => {
    const step = db.transaction("kept", mode), asked = act(step.objectStore("kept"));
    step.oncomplete = () => { db.close(); done(asked.result); };
    step.onerror = () => { db.close(); fail(step.error); };
  });
};
const load = () => kept("readonly", (store) => store.get("device"));
const save = (device) => kept("readwrite", (store) => store.put(device, "device"));
const forget = () => kept("readwrite", (store) => store.delete("device"));

// The private key cannot be read by any script, this one included; it can only sign.
const newDevice = async (name, capabilities) => {
  const pair = await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"]);
  const key = base64(await crypto.subtle.exportKey("raw", pair.publicKey));
  return { name, capabilities, key, privateKey: pair.privateKey, gatewayKey: "" };
};
const keyWords = async (key) => {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(key)));
  const hex = [...digest].map((b) => b.toString(16).padStart(2, "0")).join("");
  return hex.slice(0, 16).match(/..../g).join(" ");
};
const signedText = (role, proof) => new TextEncoder().encode(
  ["pegboard node 1", role, proof.gatewayKey, proof.gatewayNonce, proof.nodeKey, proof.nodeNonce].join("\n"));

// -- the connection -------------------------------------------------------------------------------

let device = null, socket = null, proof = null, waitMs = 1000, stopped = false, welcome = false;

const send = (type, fields) => socket.send(JSON.stringify({ type, ...fields }));

const connect = () => {
  stopped = welcome = false;
  state("Connecting …");
  const own = socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/node`);
  let before = Promise.resolve();
  own.onmessage = (event) => {
    const message = JSON.parse(event.data);
    // In order until it is welcome; a call must not hold up the next one.
    before = welcome ? receive(message) : before.then(() => receive(message)).catch((error) => stop(error.message));
  };
  own.onclose = () => {
    if (socket !== own) return;
    show("pairing", false);
    showApprovals([]);
    for (const one of [...asking.values()]) one.end();  // Nobody hears the answer.
    if (stopped) return;
    state("Not connected; trying again …");
    setTimeout(() => { if (socket === own && !stopped) connect(); }, waitMs * (0.8 + 0.4 * Math.random()));
    waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS);
  };
};
const stop = (why) => {
  stopped = true;
  state(why);
  show("forget", true);
  if (socket) socket.close();
};

const receive = async (message) => {
  switch (message.type) {
    case "challenge": return hello(message);
    case "pair":
      $("code").textContent = message.code;
      $("key").textContent = await keyWords(device.key);
      state("Waiting for approval …");
      return show("pairing", true);
    case "welcome": return welcomed(message);
    case "refused":
      if (["permission_denied", "conflict", "invalid_arguments"].includes(message.code)) {
        return stop(`${message.message}. ${message.hint}`);
      }
      return state(message.message);
    case "call": return carryOut(message);
    case "cancel": return cancelled(message.id);
    case "approvals": return showApprovals(message.approvals);
    case "answered": return answered(message);
  }
};

const hello = async (message) => {
  if (device.gatewayKey && device.gatewayKey !== message.key) {
    throw new Error("This gateway has another key than before. If its owner confirms that, forget this device and pair it again.");
  }
  const nodeNonce = base64(crypto.getRandomValues(new Uint8Array(32)));
  proof = { gatewayKey: message.key, gatewayNonce: message.nonce, nodeKey: device.key, nodeNonce };
  const signature = base64(await crypto.subtle.sign("Ed25519", device.privateKey, signedText("node", proof)));
  send("hello", {
    protocol: PROTOCOL, key: device.key, nonce: nodeNonce, signature, name: device.name, kind: "browser",
    platform: (navigator.userAgentData?.platform || navigator.platform || "browser").slice(0, 60),
    capabilities: device.capabilities,
  });
};

const welcomed = async (message) => {
  const key = await crypto.subtle.importKey("raw", bytes(proof.gatewayKey), "Ed25519", false, ["verify"]);
  if (!await crypto.subtle.verify("Ed25519", key, bytes(message.signature), signedText("gateway", proof))) {
    throw new Error("The gateway does not hold the key that it showed.");
  }
  device.gatewayKey = proof.gatewayKey;
  await save(device);
  welcome = true;
  waitMs = 1000;
  show("setup", false);
  show("pairing", false);
  show("forget", true);
  state(`Connected as ${device.name}: ${message.capabilities.join(", ") || "nothing"}.`);
  if (message.capabilities.includes("notify") && "Notification" in window && Notification.permission === "default") {
    Notification.requestPermission().catch(() => {});
  }
};

// -- what the gateway asks ------------------------------------------------------------------------

const carryOut = async ({ id, action, values }) => {
  const own = socket;
  const reply = (type, fields) => {
    if (own.readyState === WebSocket.OPEN) own.send(JSON.stringify({ type, id, ...fields }));
  };
  try {
    const act = ACTIONS[action];
    const capability = ["present", "hide", "snapshot", "eval"].includes(action) ? "canvas" : action;
    if (!act || !device.capabilities.includes(capability)) throw new Refusal("unsupported", `this device does not do ${action}`);
    reply("result", { values: await act(values, id) });
  } catch (error) {
    reply("error", { code: error.code || "unavailable", message: error.message || String(error), hint: error.hint || "" });
  }
};

const card = (lines, buttons = []) => {
  const made = document.createElement("div");
  made.className = "card";
  for (const [tag, text, name] of lines) {
    if (!text) continue;
    const line = made.appendChild(document.createElement(tag));
    line.textContent = text;
    if (name) line.className = name;
  }
  for (const [label, name, act] of buttons) {
    const button = made.appendChild(document.createElement("button"));
    button.textContent = label;
    button.type = "button";
    button.className = name;
    button.onclick = act;
  }
  return made;
};

const notice = (made) => {
  const list = $("notice-list");
  list.prepend(made);
  while (list.children.length > MOST_NOTICES) list.lastChild.remove();
  show("notices", true);
};

const notify = async ({ title, text }) => {
  notice(card([["p", title, "meta"], ["p", text], ["p", new Date().toLocaleTimeString(), "meta"]]));
  const shown = ["page"];
  if ("Notification" in window && Notification.permission === "granted") {
    try { new Notification(title || "Pegboard", { body: text }); shown.push("desktop"); } catch { /* Phones refuse it. */ }
  }
  return { shown };
};

const locate = () => new Promise((done, fail) => {
  if (!navigator.geolocation) return fail(new Refusal("unsupported", "this browser knows no location"));
  navigator.geolocation.getCurrentPosition(
    ({ coords, timestamp }) => done({
      latitude: coords.latitude, longitude: coords.longitude, accuracy_m: coords.accuracy, source: "browser",
      at: new Date(timestamp).toISOString(),
    }),
    (error) => fail(new Refusal("unavailable", `the browser gave no location: ${error.message}`)),
    { enableHighAccuracy: true, timeout: 25000, maximumAge: 0 });
});

const photograph = async () => {
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    throw new Refusal("unavailable", `the browser gave no camera: ${error.message}`);
  }
  try {
    const video = document.createElement("video");
    video.playsInline = video.muted = true;
    video.srcObject = stream;
    await video.play();
    const scale = Math.min(1, MOST_PIXELS / Math.max(video.videoWidth, video.videoHeight));
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(video.videoWidth * scale);
    canvas.height = Math.round(video.videoHeight * scale);
    canvas.getContext("2d").drawImage(video, 0, 0, canvas.width, canvas.height);
    notice(card([["p", "A picture was taken with the camera."], ["p", new Date().toLocaleTimeString(), "meta"]]));
    return { data: canvas.toDataURL("image/jpeg", 0.85).split(",")[1] };
  } finally {
    stream.getTracks().forEach((track) => track.stop());
  }
};

// Questions wait in `asking` until somebody answers or the caller gives up.
const asking = new Map();
const ask = ({ text }, id) => new Promise((done, fail) => {
  const end = (finish) => () => { made.remove(); asking.delete(id); showWaiting(); finish(); };
  const made = card([["p", "An agent asks:", "meta"], ["p", text]], [
    ["Yes", "yes", end(() => done({ approved: true }))], ["No", "no", end(() => done({ approved: false }))]]);
  asking.set(id, { end: end(() => fail(new Refusal("cancelled", "nobody waits for the answer"))) });
  $("question-list").append(made);
  showWaiting();
});
const cancelled = (id) => {
  asking.get(id)?.end();
  waiting.get(id)?.fail(new Refusal("cancelled", "nobody waits for the answer"));
  waiting.delete(id);
};

// -- the canvas: a frame without our origin -----------------------------------------------------------

let frame = null;
const waiting = new Map();

window.addEventListener("message", (event) => {
  if (!frame || event.source !== frame.contentWindow || !event.data) return;
  const key = event.data.ready ? "ready" : event.data.id, one = waiting.get(key);
  waiting.delete(key);
  if (!one) return;
  if (event.data.error) one.fail(new Refusal("node_error", String(event.data.error))); else one.done(event.data.values || {});
});
const inFrame = (key, act) => new Promise((done, fail) => { waiting.set(key, { done, fail }); act(); });
const tell = (id, action, values) => {
  if (!frame) throw new Refusal("not_found", "nothing is shown", "Present a page first.");
  // It has no origin of its own, so no other target can be named; only this frame is this window.
  return inFrame(id, () => frame.contentWindow.postMessage({ id, action, values }, "*"));
};
const present = async (values, id) => {
  await hide();
  frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.referrerPolicy = "no-referrer";
  frame.title = "Page of an agent";
  frame.src = "/node/canvas";
  $("canvas-title").textContent = `Shown by an agent${values.title ? `: ${values.title}` : ""}`;
  show("canvas", true);
  await inFrame("ready", () => $("frame").replaceChildren(frame));
  return tell(id, "present", { html: String(values.html) });
};
const hide = async () => {
  for (const one of waiting.values()) one.fail(new Refusal("cancelled", "the page was taken away"));
  waiting.clear();
  $("frame").replaceChildren();
  frame = null;
  show("canvas", false);
  return {};
};

const ACTIONS = {
  notify, location: locate, camera: photograph, approve: ask, present, hide,
  snapshot: (values, id) => tell(id, "snapshot", {}),
  eval: (values, id) => tell(id, "eval", { script: String(values.script) }),
};

// -- approvals ----------------------------------------------------------------------------------------

const showWaiting = () => show("approvals", $("approval-list").children.length + $("question-list").children.length > 0);
const showApprovals = (approvals) => {
  $("approval-list").replaceChildren(...approvals.map(approvalCard));
  showWaiting();
};
const approvalCard = (one) => {
  const answer = (fields) => () => {
    made.querySelectorAll("button").forEach((b) => { b.disabled = true; });
    send("answer", { approval: one.approval, reason: "", ...fields });
  };
  const does = one.effects.map((e) => `${e.kind} ${e.target}`).join("\n");
  const diffs = one.changes.map((c) => c.diff).filter(Boolean).join("\n");
  const head = [["p", one.kind === "approval" ? `${one.tool} wants to:` : "A question:"],
    ["p", one.question || does], ["pre", diffs], ["p", one.reason, "meta"], ["p", `Task: ${one.task}`, "meta"]];
  let field = null;
  const buttons = one.kind === "approval"
    ? [["Allow once", "yes", answer({ decision: "allow" })], ["Deny", "no", answer({ decision: "deny" })]]
    : [["Answer", "yes", () => answer({ reason: field.value })()]];
  const made = card(head, buttons);
  made.dataset.approval = one.approval;
  if (one.kind !== "approval") {
    field = document.createElement("input");
    field.setAttribute("aria-label", "Answer");
    made.insertBefore(field, made.querySelector("button"));
  }
  return made;
};
const answered = ({ approval, error }) => {
  if (error) state(error);
  for (const one of $("approval-list").children) if (one.dataset.approval === approval && !error) one.remove();
  showWaiting();
};

// -- start ------------------------------------------------------------------------------------------------

$("setup").onsubmit = async (event) => {
  event.preventDefault();
  const chosen = [...$("capabilities").querySelectorAll("input:checked")].map((i) => i.value);
  device = await newDevice($("name").value, CAPABILITIES.filter((c) => chosen.includes(c)));
  await save(device);
  show("setup", false);
  connect();
};
$("forget").onclick = async () => {
  stopped = true;
  if (socket) socket.close();
  await forget();
  location.reload();
};

const start = async () => {
  if (!window.isSecureContext || !crypto.subtle) {
    return state("This page needs https, or an address on this device itself.");
  }
  device = await load();
  if (device) connect(); else { $("name").value = "phone"; show("setup", true); }
};
start().catch((error) => state(`This browser cannot be a node: ${error.message}`));
