//go:build unix && !linux

package servers

// removeSharedMemory leaves a killed PostgreSQL's segment to the system.
func removeSharedMemory(string) error { return nil }
