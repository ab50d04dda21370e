internal import Foundation

/// The directives of `Cache-Control` (RFC 9111 section 5.2), of a response or of a request. Unknown ones are there and
/// mean nothing.
struct CacheControl: Hashable {
    /// What a directive says about header fields (RFC 9111 sections 5.2.2.4 and 5.2.2.7).
    enum Scope: Equatable {
        /// Nothing: the directive is not there.
        case nothing
        /// The named ones only, in lower case.
        case fields(Set<String>)
        /// All of the response.
        case everything
    }

    /// A time in seconds.
    enum Seconds: Equatable {
        case absent
        /// It is there and cannot be understood: the response is to be taken for stale (section 4.2.1).
        case invalid
        case value(Double)
    }

    private enum Argument: Hashable {
        case none
        case text(String)
        case malformed
    }

    /// Beyond a year more means nothing to us.
    static let longest: Double = 365 * 24 * 3600

    /// By names in lower case, in the order of the field.
    private let directives: [String: [Argument]]

    /// - Parameter value: several field lines are joined by commas; nil where there is none.
    init(_ value: String?) {
        var directives: [String: [Argument]] = [:]
        for element in value.map(HTTPFieldList.elements) ?? [] {
            let (name, argument) = Self.directive(element)
            directives[name, default: []].append(argument)
        }
        self.directives = directives
    }

    func contains(_ name: String) -> Bool { directives[name] != nil }

    /// Whether a directive is there that says nothing more than its name.
    func isBare(_ name: String) -> Bool { directives[name]?.first == Argument.none }

    /// The first occurrence counts, as section 4.2.1 has it for directives that come twice. Both forms of an argument
    /// are read (section 5.2).
    func seconds(_ name: String) -> Seconds {
        guard let first = directives[name]?.first else { return .absent }
        guard case .text(let text) = first, let seconds = Self.deltaSeconds(text) else { return .invalid }
        return .value(seconds)
    }

    /// Of `no-cache` and `private`. The more restrictive one counts where there are two.
    func scope(_ name: String) -> Scope {
        guard let arguments = directives[name] else { return .nothing }
        var fields: Set<String> = []
        for argument in arguments {
            // What cannot be read may have meant anything.
            guard case .text(let text) = argument else { return .everything }
            let names = HTTPFieldList.elements(text)
            guard !names.isEmpty, names.allSatisfy(HTTPFieldList.isToken) else { return .everything }
            fields.formUnion(names.map { $0.lowercased() })
        }
        return .fields(fields)
    }

    /// delta-seconds: whole, not negative (RFC 9111 section 1.2.2).
    static func deltaSeconds(_ text: String) -> Double? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return min(Double(text) ?? longest, longest)
    }

    private static func directive(_ element: Substring) -> (name: String, argument: Argument) {
        guard let equals = element.utf8.firstIndex(of: UInt8(ascii: "=")) else { return (element.lowercased(), .none) }
        let (name, value) = (element[..<equals], element[element.utf8.index(after: equals)...])
        let known = HTTPFieldList.trimmed(name).lowercased()
        // No whitespace belongs around the sign: `max-age= 60` is not understood the same everywhere.
        guard HTTPFieldList.isToken(name) else { return (known, .malformed) }
        if HTTPFieldList.isToken(value) { return (known, .text(String(value))) }
        return (known, HTTPFieldList.unquoted(value).map { .text($0) } ?? .malformed)
    }
}

extension CacheControl.Scope {
    /// Whether the directive is about this field alone.
    ///
    /// - Parameter field: in lower case.
    func names(_ field: String) -> Bool {
        if case .fields(let names) = self { names.contains(field) } else { false }
    }
}
