package books

// An Identity holds at any time between counts of one rank: Of is the sum of Parts. What is left is its residue, and
// anything but 0 is a fault of ours.
type Identity struct {
	Name  string
	Of    string
	Parts []string
	Text  string // in words
}

// Names of counts. All are since the session began but the pending ones, which are of now.
const (
	KernelsReceived  = "received"
	KernelsInSteps   = "in_steps"
	KernelsOutside   = "outside"
	KernelsLate      = "late"
	KernelsInvalid   = "invalid"
	KernelsDuplicate = "duplicate"
	KernelsPending   = "pending"

	ShimKernels          = "shim_kernels"
	ShimKernelsHeard     = "shim_kernels_heard"
	ShimKernelsLost      = "shim_kernels_lost"
	ShimKernelsMissing   = "shim_kernels_missing"
	ShimKernelsElsewhere = "shim_kernels_elsewhere"
	ShimCopies           = "shim_copies"
	ShimCopiesHeard      = "shim_copies_heard"
	ShimCopiesLost       = "shim_copies_lost"
	ShimCopiesMissing    = "shim_copies_missing"
	ShimCopiesElsewhere  = "shim_copies_elsewhere"

	PackedKernels         = "packed_kernels"
	PackedKernelsConsumed = "packed_kernels_consumed"
	PackedKernelsRefused  = "packed_kernels_refused"
	PackedKernelsPending  = "packed_kernels_pending"
	PackedCopies          = "packed_copies"
	PackedCopiesConsumed  = "packed_copies_consumed"
	PackedCopiesRefused   = "packed_copies_refused"
	PackedCopiesPending   = "packed_copies_pending"

	DeviceWall    = "device_ns"
	DeviceCompute = "device_compute_ns"
	DeviceComm    = "device_comm_ns"
	DeviceIdle    = "device_idle_ns"
	DeviceUnknown = "device_unknown_ns"

	// RankConflicts are ranks that the session claimed while another process was them; left out where there are none.
	RankConflicts = "rank_conflicts"
)

// Names of identities.
const (
	OfKernels       = "kernels"
	OfShimKernels   = "shim_kernels"
	OfShimCopies    = "shim_copies"
	OfPackedKernels = "packed_kernels"
	OfPackedCopies  = "packed_copies"
	OfDeviceTime    = "device_ns"
)

// Identities are all of them.
var Identities = []Identity{
	{OfKernels, KernelsReceived,
		[]string{KernelsInSteps, KernelsOutside, KernelsLate, KernelsInvalid, KernelsDuplicate, KernelsPending},
		"each kernel record that arrived is in a step that is final, outside any, late, invalid, a duplicate, or waits for its step"},
	{OfShimKernels, ShimKernels,
		[]string{ShimKernelsHeard, ShimKernelsLost, ShimKernelsMissing, ShimKernelsElsewhere},
		"each kernel that the shim had seen at its last STATS or BYE had arrived by then, is counted by LOST as `shim_buffer`, was in a frame that is missing (`wire` once the session has ended), or was an earlier collector's"},
	{OfShimCopies, ShimCopies,
		[]string{ShimCopiesHeard, ShimCopiesLost, ShimCopiesMissing, ShimCopiesElsewhere},
		"likewise copies and memsets"},
	{OfPackedKernels, PackedKernels,
		[]string{PackedKernelsConsumed, PackedKernelsRefused, PackedKernelsPending},
		"each kernel that was packed is in a chunk that the logs pipeline took, or refused (`downstream_refused`), or that waits"},
	{OfPackedCopies, PackedCopies,
		[]string{PackedCopiesConsumed, PackedCopiesRefused, PackedCopiesPending},
		"likewise copies and memsets"},
	{OfDeviceTime, DeviceWall,
		[]string{DeviceCompute, DeviceComm, DeviceIdle, DeviceUnknown},
		"each nanosecond from the first kernel's start to the watermark is compute, comm, idle or unknown"},
}

// Counts are an account's, by name.
type Counts map[string]uint64

// Residue is what an identity of counts leaves: Of less Parts, signed.
func (i *Identity) Residue(c Counts) int64 {
	left := c[i.Of]
	for _, part := range i.Parts {
		left -= c[part]
	}
	return int64(left)
}

// Residues are those of all identities of which counts have what they are of.
func Residues(c Counts) map[string]int64 {
	all := map[string]int64{}
	for i := range Identities {
		if _, ok := c[Identities[i].Of]; ok {
			all[Identities[i].Name] = Identities[i].Residue(c)
		}
	}
	return all
}
