package krec

// graphCopies adds one to three copies or memsets to each executable graph: nodes that no launch call made, and a record
// for each of them at each launch of the graph.
func (m *mutator) graphCopies() {
	added := map[uint32][]uint64{} // by executable graph: ids of its new nodes
	m.insert(m.copyNodes(added))
	due := map[uint32]map[int]uint64{} // by launch: after which of its kernels a node's record comes
	for _, raw := range m.raws() {
		var records []Record
		for _, r := range raw.Records {
			records = append(records, r)
			if r.Kind() != KindKernel || added[r.Graph()] == nil {
				continue
			}
			after := due[r.Correlation()]
			if after == nil {
				after = map[int]uint64{-1: 0} // at -1: how many of its kernels have come
				for _, node := range added[r.Graph()] {
					at := m.rng.IntN(500) // decode graphs have 542 to 614 kernels
					for after[at] != 0 {
						at++
					}
					after[at] = node
				}
				due[r.Correlation()] = after
			}
			if node, ok := after[int(after[-1])]; ok {
				records = append(records, m.copyAfter(r, node))
			}
			after[-1]++
		}
		raw.Records = records
	}
}

// copyNodes draws the new nodes and gives the frames that tell of them, by place.
func (m *mutator) copyNodes(added map[uint32][]uint64) map[int][]Frame {
	last := map[uint32]uint64{}  // by graph: highest node id
	first := map[uint32]int{}    // by graph: frame of its first node
	pairs := map[uint32]uint32{} // by executable graph: the graph that it was made of
	end := map[uint32]int{}      // by executable graph: frame of its last clone
	var execs []uint32
	for i, f := range m.r.Frames {
		switch f := f.(type) {
		case *NodeCreated:
			graph := uint32(f.Node >> 32)
			last[graph] = max(last[graph], f.Node)
			if _, ok := first[graph]; !ok {
				first[graph] = i
			}
		case *NodeCloned:
			exec := uint32(f.Clone >> 32)
			if _, ok := pairs[exec]; !ok {
				execs = append(execs, exec)
			}
			pairs[exec], end[exec] = uint32(f.Original>>32), i
		}
	}
	extra := map[int][]Frame{}
	for _, exec := range execs {
		begin, seen := first[exec]
		if !seen {
			continue
		}
		thread := m.r.Frames[begin].(*NodeCreated).Thread
		for range 1 + m.rng.IntN(3) {
			last[pairs[exec]]++
			last[exec]++
			original, clone := last[pairs[exec]], last[exec]
			extra[begin] = append(extra[begin], &NodeCreated{Node: original, Thread: thread})
			extra[end[exec]+1] = append(extra[end[exec]+1], &NodeCreated{Node: clone, Thread: thread}, &NodeCloned{original, clone})
			added[exec] = append(added[exec], clone)
		}
	}
	return extra
}

// copyAfter is a record of a copy or memset of 1 to 5 µs that begins while or after kernel k runs.
func (m *mutator) copyAfter(k Record, node uint64) Record {
	kind := uint32(KindMemcpy)
	if m.chance(3) {
		kind = KindMemset
	}
	r := NewRecord(kind, 0)
	start := k.End()
	if m.chance(2) {
		start = k.Start()
	}
	r.SetStart(start)
	r.SetEnd(start + 1_000 + m.rng.Uint64N(4_000))
	r.SetDevice(k.Device())
	r.SetContext(k.Context())
	r.SetStream(k.Stream())
	r.SetCorrelation(k.Correlation())
	r.SetNode(node)
	r.SetBytes(1 << (10 + m.rng.IntN(12)))
	if kind == KindMemcpy {
		r.SetCopyKind([]uint8{1, 2, 8, 10}[m.rng.IntN(4)]) // HtoD, DtoH, DtoD, PtoP
	}
	return r
}
