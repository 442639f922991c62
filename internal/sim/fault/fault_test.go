package fault

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	e, err := Parse("foreign_gemm:rank=2,at=60s,for=2m,every=200ms,amount=3.5")
	if err != nil || e.Of != 2 || e.At != time.Minute || e.For != 2*time.Minute || e.Every != 200*time.Millisecond || e.Size != 3.5 || !e.Fault {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err = Parse("restart"); err != nil || e.Fault || e.Of != -1 {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err = Parse("slow_clocks:rank=all"); err != nil || e.Of != -1 || e.Size != 20 {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err = Parse("foreign_gemm:every=1ms,amount=1000000"); err != nil || e.Every != time.Millisecond || e.Size != 1e6 {
		t.Errorf("the bounds themselves: %+v, %v", e, err)
	}
	if e, err = Parse("outage"); err != nil || e.For != 5*time.Second {
		t.Errorf("an outage ends by itself: %+v, %v", e, err)
	}
	if e, err = Parse("hang"); err != nil || e.For != 0 {
		t.Errorf("a hang does not: %+v, %v", e, err)
	}
	for text, want := range map[string]string{
		"nix":                     `there is no "nix"`,
		"hang:rank=x":             "want a number",
		"hang:rank=-1":            "want a number",
		"hang:at=5":               "want a duration",
		"hang:when=5s":            "want rank, at",
		"foreign_gemm:every=1us":  "at least 1ms",
		"slow_clocks:amount=NaN":  "want 0 to",
		"slow_clocks:amount=-1":   "want 0 to",
		"slow_clocks:amount=much": "invalid syntax",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want … %s", text, err, want)
		}
	}
}

// An event of rank 1 from 10 s on for 5 s, each second.
func TestWhen(t *testing.T) {
	e, err := Parse("foreign_gemm:rank=1,at=10s,for=5s")
	if err != nil {
		t.Fatal(err)
	}
	for at, on := range map[time.Duration]bool{9999 * time.Millisecond: false, 10 * time.Second: true, 14999 * time.Millisecond: true, 15 * time.Second: false} {
		if e.On(1, at) != on || e.On(0, at) {
			t.Errorf("at %v: %v", at, e.On(1, at))
		}
	}
	hits := 0
	for at := time.Duration(0); at < 20*time.Second; at += 10 * time.Millisecond {
		if e.Again(1, at) {
			hits++
		}
	}
	if hits != 5 {
		t.Errorf("%d times in 5 s", hits)
	}
	if s := (Schedule{e}); s.Factor("foreign_gemm", 1, 11*time.Second) != 3 || s.Factor("foreign_gemm", 1, 0) != 1 {
		t.Error("the amount is not the factor")
	}
	once, _ := Parse("stall:at=1s")
	if once.Once(0, 0) || !once.Once(0, time.Second) || once.Once(0, 2*time.Second) {
		t.Error("a stall is once")
	}
}
