package chunk

// copyKinds are the names of CUpti_ActivityMemcpyKind.
var copyKinds = [...]string{"unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"}

// CopyPeers is the name of a copy from one GPU to another.
const CopyPeers = "PtoP"

// CopyName is what metrics and the archive call a copy of a CUpti_ActivityMemcpyKind, or a memset.
func CopyName(memset bool, kind uint8) string {
	switch {
	case memset:
		return "memset"
	case int(kind) < len(copyKinds):
		return copyKinds[kind]
	}
	return copyKinds[0]
}
