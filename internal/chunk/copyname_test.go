package chunk

import "testing"

func TestCopyName(t *testing.T) {
	for _, c := range []struct {
		memset bool
		kind   uint8
		want   string
	}{ // cupti_activity.h: CUPTI_ACTIVITY_MEMCPY_KIND_HTOD is 1, … PTOP 10
		{true, 0, "memset"}, {true, 1, "memset"}, {false, 0, "unknown"}, {false, 1, "HtoD"}, {false, 2, "DtoH"}, {false, 8, "DtoD"},
		{false, 9, "HtoH"}, {false, 10, CopyPeers}, {false, 11, "unknown"}, {false, 255, "unknown"},
	} {
		if got := CopyName(c.memset, c.kind); got != c.want {
			t.Errorf("CopyName(%v, %d) = %q, want %q", c.memset, c.kind, got, c.want)
		}
	}
}
