package program

import "testing"

// A decode step of one rank has the size that kern's has: about 670 calls, 7 ms at one sequence, a
// third of it experts.
func TestFlashHasItsSize(t *testing.T) {
	p := Flash(Layouts()[0], 0, "decode_batch")
	var all, experts int64
	for _, k := range p.Kernels {
		ticks := k.Cost.Ticks(Batch{Seqs: 1, Tokens: 1, KV: 4096})
		if !k.Side {
			all += ticks
		}
		if k.Meets == Experts {
			experts += ticks
		}
	}
	if n := len(p.Kernels); n < 640 || n > 700 {
		t.Errorf("%d kernels", n)
	}
	if ms := float64(all*Tick) / 1e6; ms < 5.5 || ms > 8.5 {
		t.Errorf("%.2f ms", ms)
	}
	if share := float64(experts) / float64(all); share < 0.28 || share > 0.40 {
		t.Errorf("experts are %.2f of it", share)
	}
}

// Ranks of a group launch the same meetings in the same order.
func TestRanksOfAGroupMeet(t *testing.T) {
	for _, l := range Layouts() {
		for _, m := range []Meeting{Experts, Tensor, Stages} {
			counts := map[int]map[int]int{}
			for r := range l.Ranks() {
				for _, name := range []string{"prefill", "decode_batch", "mixed", "dummy"} {
					n := 0
					for _, k := range Flash(l, r, name).Kernels {
						if k.Meets == m {
							n++
						}
					}
					g := l.Group(m, r)
					if counts[g] == nil {
						counts[g] = map[int]int{}
					}
					counts[g][n]++
				}
			}
			for g, by := range counts {
				if len(by) != 1 {
					t.Errorf("%s: group %d of %s meets by %v", l.Name, g, m, by)
				}
			}
		}
	}
}

func TestLayouts(t *testing.T) {
	l, err := ParseLayout("pp2tp4")
	if err != nil || l.Ranks() != 8 || l.Stage(5) != 1 || l.Group(Stages, 5) != 1 || l.Group(Tensor, 5) != 1 || l.Group(Experts, 5) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	l, err = ParseLayout("tp2dp4")
	if err != nil || l.Ranks() != 8 || l.Replica(5) != 2 || l.Group(Tensor, 5) != 2 || l.Group(Experts, 7) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err = ParseLayout("dp2"); err != nil || l.Ranks() != 2 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, name := range []string{"", "dp0", "dp257", "dp2x", "xp"} {
		if _, err := ParseLayout(name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}
