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
        rows = [(self._number(name, trace), tokens, cached) for name, tokens, cached, *trace in requests]
        self._marks.step_requests(seq, rows)
        if self._step % REPEAT == 0:
            self._known = {name: k for name, k in self._known.items() if k[1] > self._step - REPEAT}

    def _number(self, name, trace):
        known = self._known.get(name)
        if known is None:
            self._last = self._last % 0xFFFFFFFF + 1
            known = self._known[name] = [self._last, self._step]
            new = True
        else:
            known[1] = self._step
            new = (self._step + known[0]) % REPEAT == 0
        if new:
            value = trace[0] if trace else 0
            self._marks.request(known[0], str(name), (value() if callable(value) else value) or 0)
        return known[0]
