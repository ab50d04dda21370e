internal import Foundation

/// Decides whether only this machine can reach a host, and whether a request to a server without tokens is of this
/// machine.
package enum LoopbackRule {
    /// Whether a listener on the host is reachable from this machine only.
    ///
    /// - Parameter host: `localhost`, or an IP address without brackets. Other names are not looked up: their addresses
    ///   can change.
    package static func isLoopback(_ host: String) -> Bool {
        host.lowercased() == "localhost" || HostAddress(host)?.isLoopback == true
    }

    /// Whether a request does not come from a page of another site.
    ///
    /// A server on loopback is still reachable for each page that the browser of this machine shows: the page can send
    /// a form to it, or have a name whose address becomes 127.0.0.1 (DNS rebinding). Such requests show it in their
    /// headers, because no page can change these two.
    ///
    /// - Parameters:
    ///   - authority: the header `Host`; requests without one are not from a browser.
    ///   - origin: the header `Origin`, which browsers send with each request that is not a plain `GET` or `HEAD`.
    static func isLocal(authority: String?, origin: String?) -> Bool {
        if let authority, !isLoopback(host(of: authority)) { return false }
        guard let origin else { return true }
        guard let authority, let scheme = origin.range(of: "://") else { return false }
        return origin[scheme.upperBound...].lowercased() == authority.lowercased()
    }

    /// The host of `host:port`, without brackets.
    private static func host(of authority: String) -> String {
        if authority.hasPrefix("[") { return String(authority.dropFirst().prefix { $0 != "]" }) }
        return String(authority.prefix { $0 != ":" })
    }
}
