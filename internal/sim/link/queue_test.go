package link

import (
	"slices"
	"testing"

	"github.com/kernhes/kernhes/internal/sender"
)

// kept is a queue of six frames, as a sender makes them: 1 is events, 2 kernels, 3 copies, 4
// events, 5 a LOST of CUPTI's, 6 a BYE.
func kept() (*queue, *sender.Sender) {
	q := &queue{}
	s := sender.New(func(number uint64, bytes []byte) {
		if number > 0 {
			q.add(frame{number, bytes})
		}
	})
	s.Pin()
	q.wire = s
	s.Base()
	s.Now = 50
	s.Launch(1, 9, false)
	s.Launched(9)
	s.Records([]sender.Kernel{{Start: 200, End: 300}, {Start: 100, End: 150}, {Start: 250, End: 260}}, []sender.Copy{{Start: 120, End: 130}, {Start: 140, End: 180}})
	s.Now = 400
	s.Launch(1, 10, false)
	s.Launched(10)
	s.Pop(1, 0, 0)
	s.Lost(sender.Loss{Reason: sender.LostCUPTI, What: sender.LostKernels, Count: 7, From: 1, To: 2})
	s.Bye()
	return q, s
}

func checkLosses(t *testing.T, q *queue, want ...sender.Loss) {
	t.Helper()
	if got := q.take(); !slices.Equal(got, want) {
		t.Errorf("losses %+v, want %+v", got, want)
	}
}

// checkLaunch is that BASE names the last launch that the collector has had; 0: none.
func checkLaunch(t *testing.T, s *sender.Sender, frame, correlation byte) {
	t.Helper()
	all := s.Snapshot()
	base := all[len(all)-1][headSize:]
	if base[0] != frame || base[8] != correlation {
		t.Errorf("BASE has frame %d and correlation id %d, want %d and %d", base[0], base[8], frame, correlation)
	}
}

var (
	kernels = sender.Loss{Reason: sender.LostBuffer, What: sender.LostKernels, Count: 3, From: 100, To: 300}
	copies  = sender.Loss{Reason: sender.LostBuffer, What: sender.LostCopies, Count: 2, From: 120, To: 180}
	events  = sender.Loss{Reason: sender.LostBuffer, What: sender.LostEvents, Count: 3, From: 50, To: 400}
	cupti   = sender.Loss{Reason: sender.LostCUPTI, What: sender.LostKernels, Count: 7, From: 1, To: 2}
)

// Frames that were not sent are lost at once: kernels, copies and events by their number, a LOST as
// the loss that it tells of. BYE stays. Nobody had their launches.
func TestFramesThatWereNotSent(t *testing.T) {
	q, s := kept()
	q.trim(0)
	if len(q.frames) != 1 || q.frames[0].number != 6 {
		t.Errorf("%d frames are kept, want BYE", len(q.frames))
	}
	checkLosses(t, q, cupti, kernels, copies, events)
	checkLosses(t, q)
	if q.lost != (Lost{3, 2, 3}) {
		t.Errorf("lost %+v", q.lost)
	}
	checkLaunch(t, s, 5, 0)
	q.sent = 6
	q.acknowledge(6)
	checkLaunch(t, s, 6, 0)
}

// The bound holds, and no more is dropped than it takes.
func TestTheBound(t *testing.T) {
	q, _ := kept()
	first := len(q.frames[0].bytes)
	q.trim(q.bytes - first)
	if q.frames[0].number != 2 || q.husks != nil {
		t.Errorf("frame %d is the first", q.frames[0].number)
	}
	checkLosses(t, q, sender.Loss{Reason: sender.LostBuffer, What: sender.LostEvents, Count: 1, From: 50, To: 50})
}

// Of frames that were sent before they were dropped, those are lost that the next collector has not
// received.
func TestFramesThatWereSent(t *testing.T) {
	q, s := kept()
	q.sent = 5
	q.trim(0)
	checkLosses(t, q)
	checkLaunch(t, s, 5, 0)
	q.acknowledge(1)
	checkLaunch(t, s, 5, 9)
	q.resume(1, 2)
	checkLosses(t, q, cupti, copies, sender.Loss{Reason: sender.LostBuffer, What: sender.LostEvents, Count: 2, From: 400, To: 400})
	checkLaunch(t, s, 5, 9)
	if q.sent != 2 || q.husks != nil {
		t.Errorf("sent %d, %d husks", q.sent, len(q.husks))
	}
}

// A LOST that is dropped itself is told of again, and counts once.
func TestALostLOST(t *testing.T) {
	q, s := kept()
	q.trim(0)
	q.frames = nil
	q.bytes = 0
	for _, l := range q.take() {
		s.Lost(l)
	}
	q.trim(0)
	checkLosses(t, q, cupti, kernels, copies, events)
	if q.lost != (Lost{3, 2, 3}) {
		t.Errorf("lost %+v", q.lost)
	}
}
