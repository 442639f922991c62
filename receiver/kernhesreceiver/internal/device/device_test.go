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
		s := span.Make(start, end, c)
		columns.Spans = append(columns.Spans, s)
		columns.Extent.Add(s)
		a.Add(0, columns, from)
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
