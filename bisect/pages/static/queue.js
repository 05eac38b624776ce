"use strict";
// A server tells what becomes of the queue; pages in a folder stay as they were written.
if (location.protocol.startsWith("http")) {
  const list = document.getElementById("queue");
  new EventSource("queue-events").onmessage = (event) => {
    list.innerHTML = JSON.parse(event.data);
  };
}
