setInterval(async () => {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const old = document.querySelector("main"), fresh = page.querySelector("main");
    if (!fresh) return;
    const focused = document.activeElement && document.activeElement.id;
    old.replaceWith(fresh);
    document.title = page.title;
    if (focused && document.getElementById(focused)) document.getElementById(focused).focus({preventScroll: true});
  } catch (e) {
    document.title = "(no answer) kernhes";
  }
}, 5000);
