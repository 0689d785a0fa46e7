// Package adopt takes over what an inbox table, made by hand or by another
// library, says was processed: as claims, so that nothing is applied again
// after the change to Yekbar.
package adopt
