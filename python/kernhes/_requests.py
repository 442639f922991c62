"""Which requests a step has. A request gets a number when it is first seen; a mark says which, and says it again now and then, so
that a collector which came later learns it too."""

REPEAT = 256  # steps between two marks of one request; one that was in no step for as long is forgotten


class Requests:
    """The numbers of the requests of one process."""

    def __init__(self, marks):
        self._marks, self._known, self._last, self._step = marks, {}, 0, 0

    def tell(self, seq, requests):
        """Sends what is in a step: (id, tokens computed, tokens cached before[, trace id, or a function that gives it])."""
        self._step += 1
        step, known, rows = self._step, self._known, []
        for request in requests:
            k = known.get(request[0])
            if k is None or (step + k[0]) % REPEAT == 0:
                k = self._announce(request)
            k[1] = step
            rows += k[0], request[1], request[2]
        self._marks.step_requests(seq, rows)
        if step % REPEAT == 0:
            self._known = {name: k for name, k in known.items() if k[1] > step - REPEAT}

    def _announce(self, request):
        """Says which request its number stands for; gives number and the step in which it was last."""
        name, trace = request[0], request[3] if len(request) > 3 else 0
        known = self._known.get(name)
        if known is None:
            self._last = self._last % 0xFFFFFFFF + 1
            known = self._known[name] = [self._last, 0]
        self._marks.request(known[0], str(name), (trace() if callable(trace) else trace) or 0)
        return known
