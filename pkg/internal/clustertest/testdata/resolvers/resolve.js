// Prints the IPv4 addresses of names by dns.lookup, which calls the C library, and for names that begin with an underscore their SRV records by
// dns.resolveSrv, which calls c-ares.
const dns = require("dns").promises;

(async () => {
	for (const name of process.argv.slice(2)) {
		if (name.startsWith("_")) {
			for (const r of await dns.resolveSrv(name)) console.log(name, r.priority, r.weight, r.port, r.name);
		} else {
			for (const a of await dns.lookup(name, { family: 4, all: true })) console.log(name, a.address);
		}
	}
})().catch((e) => {
	console.log(e.message);
	process.exit(1);
});
