internal import Foundation

/// Network addresses that may be connected to: the protection against SSRF (server-side request forgery).
///
/// Applied to the address of the socket that is about to connect, after DNS and on each redirect, so DNS rebinding has
/// no effect. The table is the IANA special-purpose registries (RFC 6890), and for IPv6 the forms that embed an IPv4
/// address.
///
/// The address is checked for each new connection, and again for each request, as libcurl may reuse a connection.
public struct AddressPolicy: Sendable, Equatable {
    /// Whether loopback, private, link-local and all other non-public addresses may be connected to.
    public var allowsPrivate: Bool
    /// Ports that may be connected to on public addresses.
    public var ports: Set<Int>

    /// Non-public addresses that may be connected to nevertheless.
    public var exceptions: Set<IPAddress> = []

    /// - Parameter ports: 80 and 443 by default.
    public init(allowsPrivate: Bool = false, ports: Set<Int> = [80, 443]) {
        self.allowsPrivate = allowsPrivate
        self.ports = ports
    }

    /// Whether a process with this policy could have fetched a cached response by itself.
    ///
    /// - Parameter address: where the response came from, as ``LoadTimings/specialAddress`` reports it.
    package func permitsOrigin(_ address: String) -> Bool {
        if allowsPrivate { return true }
        guard let address = IPAddress(address) else { return false }
        return address.specialPurpose == nil || exceptions.contains(address)
    }

    /// Why the address is refused; nil if it is allowed.
    func validationError(address: IPAddress, port: Int) -> String? {
        if let special = address.specialPurpose {
            return allowsPrivate || exceptions.contains(address)
                ? nil : "\(address) is \(special); AddressPolicy.allowsPrivate permits such addresses"
        }
        if !ports.contains(port) {
            let allowed = ports.sorted().map(String.init).joined(separator: ", ")
            return "port \(port) is not among those allowed (\(allowed)); add it to AddressPolicy.ports"
        }
        return nil
    }
}

extension LoadTimings {
    /// The addresses of the hops that are not public, or cannot be parsed; nil if all are public or unknown. The
    /// response depends on a network that others cannot reach, also if the last hop was public. Several are no address
    /// that ``AddressPolicy/permitsOrigin(_:)`` can parse: one of them may be permitted, and the other one not.
    package var specialAddress: String? {
        let last = remoteAddress.flatMap { IPAddress($0).map { $0.specialPurpose == nil } == true ? nil : $0 }
        guard let specialHop, let last else { return specialHop ?? last }
        return specialHop.components(separatedBy: ", ").contains(last) ? specialHop : "\(specialHop), \(last)"
    }

    /// Sets the address of the next hop.
    mutating func addHop(_ address: String?) {
        specialHop = specialAddress
        remoteAddress = address
    }
}
