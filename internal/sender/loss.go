package sender

// A Loss is a body of LOST.
type Loss struct {
	Reason, What uint32
	Count        uint64
	From, To     uint64 // unix ns, between which the lost ones lie; 0: not known
}

// LossOf is what a frame counts as if the collector never has it. Count is 0 for one that holds
// nothing to count. A frame that tells of a loss counts as that loss.
func LossOf(frame []byte) (l Loss) {
	l.Reason = LostBuffer
	body := frame[frameHead:]
	switch le.Uint16(frame[4:]) {
	case kindKernels, kindCopies:
		l.What = LostKernels
		if le.Uint16(frame[4:]) == kindCopies {
			l.What = LostCopies
		}
		for ; len(body) >= recordSize; body = body[recordSize:] {
			l.Add(1, le.Uint64(body), le.Uint64(body[8:]))
		}
	case kindEvents:
		l.What = LostEvents
		for len(body) >= eventHead {
			at := le.Uint64(body[8:])
			l.Add(1, at, at)
			body = body[le.Uint16(body[2:]):]
		}
	case kindLost:
		l = Loss{le.Uint32(body), le.Uint32(body[4:]), le.Uint64(body[8:]), le.Uint64(body[16:]), le.Uint64(body[24:])}
	}
	return l
}

// Add counts more, between two times. An end that is not known for one is not known for both.
func (l *Loss) Add(count, from, to uint64) {
	first := l.Count == 0
	l.Count += count
	if first || from == 0 || l.From != 0 && from < l.From {
		l.From = from
	}
	if first || to == 0 || l.To != 0 && to > l.To {
		l.To = to
	}
}
