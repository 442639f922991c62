package digest

import "strings"

// kinds are tried from the top, and the first whose word lies in the kernel's name or op wins, in lower case and without
// underscores. A fused kernel of experts also says "combine"; a reduce-scatter also says "reduce".
var kinds = []struct {
	word string
	kind Kind
}{
	{"megamoe", Meeting},
	{"barrier", Meeting},
	{"allreduce", AllReduce},
	{"crossdevicereduce", AllReduce},
	{"oneshot", AllReduce},
	{"twoshot", AllReduce},
	{"reducescatter", ReduceScatter},
	{"allgather", AllGather},
	{"sendrecv", NotComparable},
	{"ncclsend", NotComparable},
	{"ncclrecv", NotComparable},
	{"alltoall", NotComparable},
	{"all2all", NotComparable},
	{"a2a", NotComparable},
	{"broadcast", NotComparable}, // its root does not wait
	{"ncclreduce", NotComparable},
	{"nccldevkernelreduce", NotComparable}, // likewise
	{"dispatch", NotComparable},
	{"combine", NotComparable},
	{"nvshmem", NotComparable},
	{"put", NotComparable},
}

var plain = strings.NewReplacer("_", "", "-", "")

// KindOf reads a kernel's name and its op.
func KindOf(name, op string) Kind {
	for _, text := range [...]string{op, name} {
		text = plain.Replace(strings.ToLower(text))
		for _, k := range kinds {
			if strings.Contains(text, k.word) {
				return k.kind
			}
		}
	}
	return Unknown
}
