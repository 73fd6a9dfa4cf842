self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', e => e.waitUntil(self.clients.claim()));
self.addEventListener('message', async e => {
  let said; try { said = (await fetch(e.data, {mode: 'no-cors'})).type } catch (error) { said = 'refused' }
  e.source.postMessage(said);
});
