package device

import (
	"testing"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// Copies after the last kernel are no part of the time that is accounted up to its end, however many there are and
// however far apart; they are once a later kernel has ended.
func TestCopiesAfterTheLastKernel(t *testing.T) {
	var a Account
	columns := &cupti.Columns{}
	add := func(start, end uint64, c span.Class) {
		from := len(columns.Spans)
		columns.Add(span.Make(start, end, c), 0)
		a.Add(0, columns.Since(from))
	}
	check := func(when string, want Time) {
		t.Helper()
		if got := a.Time(); got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	add(1000, 1100, span.Compute)
	add(1080, 1130, span.Copy) // 20 ns past the kernel
	add(1500, 1510, span.Copy)
	add(9000, 9010, span.Copy)
	a.Advance(10000, 1e9)
	check("held back", Time{Compute: 100, First: 1000, Watermark: 1100})
	add(9500, 9600, span.Compute)
	a.Advance(10000, 1e9)
	check("the next kernel", Time{Compute: 100 + 100, Idle: 8400, Copy: 30 + 10 + 10, First: 1000, Watermark: 9600})
	add(9700, 9710, span.Copy)
	add(9900, 9910, span.Copy)
	a.Finish()
	check("at the end", Time{Compute: 200, Idle: 8400, Copy: 50, First: 1000, Watermark: 9600})
}

// TestASpinKernelIsIdle: it only waits for the host.
func TestASpinKernelIsIdle(t *testing.T) {
	var a Account
	add(&a, 0, 100, 200, span.Compute)
	add(&a, 0, 150, 400, span.Spin)
	add(&a, 0, 300, 350, span.Comm)
	a.Advance(500, 0)
	if got, want := a.Time(), (Time{Compute: 100, Comm: 50, Idle: 250, First: 100, Watermark: 500}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestLateKernelsAreCountedAndLeftOut: they started before what was accounted when they came. Of a copy that was under way then,
// the rest counts, for it is in no sum that must add up.
func TestLateKernelsAreCountedAndLeftOut(t *testing.T) {
	var a Account
	add(&a, 0, 100, 200, span.Compute)
	a.Advance(1000, 0)
	columns := &cupti.Columns{}
	for _, s := range []span.Span{
		span.Make(150, 180, span.Compute), span.Make(999, 1200, span.Comm), // late
		span.Make(500, 600, span.Copy),   // was over
		span.Make(900, 1000, span.Copy),  // ended with the watermark
		span.Make(950, 1050, span.Copy),  // 50 remain
		span.Make(1000, 1010, span.Comm), // in time, to the nanosecond
		span.Make(2000, 2010, span.Compute),
	} {
		columns.Add(s, 0)
	}
	if late := a.Add(0, columns.Since(0)); late != 2 {
		t.Errorf("%d late, want 2", late)
	}
	a.Advance(3000, 0)
	if got, want := a.Time(), (Time{Compute: 110, Comm: 10, Copy: 40, Idle: 3000 - 100 - 120, First: 100, Watermark: 3000}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestTimeIsHeldBackAfterTheLastKernel, as long as hold says and not a nanosecond longer.
func TestTimeIsHeldBackAfterTheLastKernel(t *testing.T) {
	var a Account
	a.Advance(50, 0)
	if a.Time() != (Time{}) {
		t.Errorf("without a kernel: %+v", a.Time())
	}
	add(&a, 0, 100, 200, span.Compute)
	for watermark, want := range map[uint64]uint64{150: 150, 200: 200, 210: 200, 211: 211} {
		var a Account
		add(&a, 0, 100, 200, span.Compute)
		a.Advance(watermark, 10)
		if got := a.Time().Watermark; got != want {
			t.Errorf("watermark %d: accounted up to %d, want %d", watermark, got, want)
		}
	}
	a.Advance(1000, 10)
	a.Advance(500, 10) // it never goes back
	if got, want := a.Time(), (Time{Compute: 100, Idle: 800, First: 100, Watermark: 1000}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestWhatWaitsAndWhatIsHeld: Latest is of what is not measured, Held all that is still needed.
func TestWhatWaitsAndWhatIsHeld(t *testing.T) {
	var a Account
	columns := &cupti.Columns{}
	for i := range uint64(maxRun + 10) { // one run is full, and a second has the rest
		from := len(columns.Spans)
		columns.Add(span.Make(100+i, 101+i, span.Compute), 0)
		a.Add(7, columns.Since(from))
	}
	check := func(when string, latest uint64, held, pending int) {
		t.Helper()
		if a.Latest() != latest || a.Held() != held || len(a.pending) != pending {
			t.Errorf("%s: latest %d, %d held, %d runs, want %d, %d, %d", when, a.Latest(), a.Held(), len(a.pending), latest, held, pending)
		}
	}
	check("all wait", 100+maxRun+10, maxRun+10, 2)
	a.Advance(105, 0) // cuts the first run
	check("cut", 100+maxRun+10, 2*(maxRun+10)-5, 0)
	a.Advance(100+maxRun+10, 0)
	check("measured", 0, maxRun+10, 0)
	a.Settle(100+maxRun+10, true)
	check("a step is open", 0, maxRun+10, 0)
	a.Settle(100+maxRun+10, false)
	check("none is", 0, 0, 0)
	if got := a.Time().Compute; got != maxRun+10 {
		t.Errorf("compute %d", got)
	}
	add(&a, 0, 10_000, 10_010, span.Compute)
	a.Settle(10_010+keep, true)
	check("for the longest time that kernels are kept", 10_010, 1, 1)
	a.Settle(10_011+keep, true)
	check("beyond it", 10_010, 0, 1)
}
