package clustertest

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// resolverProgram is the name under which the test binary prints addresses by Go's resolver.
const resolverProgram = "resolver"

// resolve prints the IPv4 addresses of names by Go's resolver, and for names that begin with an underscore their SRV records.
func resolve(names []string) error {
	r := net.Resolver{PreferGo: true}
	for _, name := range names {
		if strings.HasPrefix(name, "_") {
			_, records, err := r.LookupSRV(context.Background(), "", "", name)
			if err != nil {
				return err
			}
			for _, s := range records {
				fmt.Println(name, s.Priority, s.Weight, s.Port, s.Target)
			}
			continue
		}
		addresses, err := r.LookupIP(context.Background(), "ip4", name)
		if err != nil {
			return err
		}
		for _, a := range addresses {
			fmt.Println(name, a)
		}
	}
	return nil
}
