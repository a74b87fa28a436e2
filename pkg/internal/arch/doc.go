// Package arch tests the layers: a package imports only from the layers below its own, never sideways.
package arch
