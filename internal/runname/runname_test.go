package runname

import "testing"

func TestIs(t *testing.T) {
	for _, c := range []struct {
		run, asked string
		want       bool
	}{
		{"qwen", "", true},
		{"", "", true},
		{"qwen", "qwen", true},
		{"qwen#20261201T101500-0000abcd", "qwen", true},
		{"qwen#20261201T101500-0000abcd", "qwen#20261201T101500-0000abcd", true},
		{"qwen#20261201T101500-0000abce", "qwen#20261201T101500-0000abcd", false},
		{"qwen", "qwen#20261201T101500-0000abcd", false},
		{"qwen", "qwen#", true},
		{"qwen#20261201T101500-0000abcd", "qwen#", false},
		{"qwen2", "qwen", false},
		{"qwen2#nccl-000000000000feed", "qwen", false},
		{"", "qwen", false},
		{"a#b", "a#b", true},
		{"a#b#nccl-000000000000feed", "a#b", true},
	} {
		if got := Is(c.run, c.asked); got != c.want {
			t.Errorf("Is(%q, %q) is %v", c.run, c.asked, got)
		}
	}
}

func TestALaterStartIsFoundByItsName(t *testing.T) {
	run := Again("qwen", "nccl-000000000000feed")
	if run != "qwen#nccl-000000000000feed" || !Is(run, "qwen") || Is(run, "qwen#") {
		t.Error(run)
	}
}
