/* Prints the IPv4 addresses of names by the C library's resolver, and for names that begin with an underscore their SRV records. */
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdio.h>
#include <sys/socket.h>

static int services(const char *name) {
	unsigned char answer[65536];
	char target[NS_MAXDNAME];
	ns_msg msg;
	ns_rr rr;
	int n = res_query(name, ns_c_in, ns_t_srv, answer, sizeof answer);
	if (n < 0 || ns_initparse(answer, n, &msg) < 0) return 1;
	for (int i = 0; i < ns_msg_count(msg, ns_s_an); i++) {
		if (ns_parserr(&msg, ns_s_an, i, &rr) < 0) return 1;
		if (ns_rr_type(rr) != ns_t_srv) continue;
		const unsigned char *d = ns_rr_rdata(rr);
		if (dn_expand(ns_msg_base(msg), ns_msg_end(msg), d + 6, target, sizeof target) < 0) return 1;
		printf("%s %u %u %u %s\n", name, ns_get16(d), ns_get16(d + 2), ns_get16(d + 4), target);
	}
	return 0;
}

static int addresses(const char *name) {
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *list;
	char text[INET_ADDRSTRLEN];
	int failed = getaddrinfo(name, NULL, &hints, &list);
	if (failed) {
		printf("%s: %s\n", name, gai_strerror(failed));
		return 1;
	}
	for (struct addrinfo *a = list; a; a = a->ai_next)
		printf("%s %s\n", name, inet_ntop(AF_INET, &((struct sockaddr_in *)a->ai_addr)->sin_addr, text, sizeof text));
	freeaddrinfo(list);
	return 0;
}

int main(int argc, char **argv) {
	int failed = 0;
	for (int i = 1; i < argc; i++) failed |= argv[i][0] == '_' ? services(argv[i]) : addresses(argv[i]);
	return failed;
}
