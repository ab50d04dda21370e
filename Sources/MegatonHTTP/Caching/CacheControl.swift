internal import Foundation

/// The directives of `Cache-Control` (RFC 9111 section 5.2), of a response or of a request. Unknown directives are read
/// and have no effect.
package struct CacheControl: Hashable {
    /// Header fields that a directive applies to (RFC 9111 sections 5.2.2.4 and 5.2.2.7).
    package enum Scope: Equatable {
        /// None: the directive is absent.
        case nothing
        /// The named fields only, in lower case.
        case fields(Set<String>)
        /// The whole response.
        case everything
    }

    /// Argument of a directive, in seconds.
    package enum Seconds: Equatable {
        case absent
        /// Present but malformed: the response has to be treated as stale (section 4.2.1).
        case invalid
        case value(Double)
    }

    private enum Argument: Hashable {
        case none
        case text(String)
        case malformed
    }

    /// Upper bound of all times, seconds: a year.
    package static let longest: Double = 365 * 24 * 3600

    /// Arguments by name of the directive in lower case, in the order of the field.
    private let directives: [String: [Argument]]

    /// - Parameter value: the field's value, with several field lines joined by commas; nil if there is no such field.
    package init(_ value: String?) {
        var directives: [String: [Argument]] = [:]
        for element in value.map(HTTPFieldList.elements) ?? [] {
            let (name, argument) = Self.directive(element)
            directives[name, default: []].append(argument)
        }
        self.directives = directives
    }

    package func contains(_ name: String) -> Bool { directives[name] != nil }

    /// Whether a directive is present without an argument.
    package func isBare(_ name: String) -> Bool { directives[name]?.first == Argument.none }

    /// Argument of the first occurrence, which section 4.2.1 allows for duplicate directives. Both forms of an argument
    /// are accepted (section 5.2).
    package func seconds(_ name: String) -> Seconds {
        guard let first = directives[name]?.first else { return .absent }
        guard case .text(let text) = first, let seconds = Self.deltaSeconds(text) else { return .invalid }
        return .value(seconds)
    }

    /// Scope of `no-cache` or `private`. Of several occurrences the most restrictive one counts.
    package func scope(_ name: String) -> Scope {
        guard let arguments = directives[name] else { return .nothing }
        var fields: Set<String> = []
        for argument in arguments {
            // A malformed argument may have meant any field.
            guard case .text(let text) = argument else { return .everything }
            let names = HTTPFieldList.elements(text)
            guard !names.isEmpty, names.allSatisfy(HTTPFieldList.isToken) else { return .everything }
            fields.formUnion(names.map { $0.lowercased() })
        }
        return .fields(fields)
    }

    /// Parses delta-seconds, a non-negative integer (RFC 9111 section 1.2.2).
    package static func deltaSeconds(_ text: String) -> Double? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return min(Double(text) ?? longest, longest)
    }

    private static func directive(_ element: Substring) -> (name: String, argument: Argument) {
        guard let equals = element.utf8.firstIndex(of: UInt8(ascii: "=")) else { return (element.lowercased(), .none) }
        let (name, value) = (element[..<equals], element[element.utf8.index(after: equals)...])
        let known = HTTPFieldList.trimmed(name).lowercased()
        // Whitespace around the equals sign is malformed: implementations disagree on `max-age= 60`.
        guard HTTPFieldList.isToken(name) else { return (known, .malformed) }
        if HTTPFieldList.isToken(value) { return (known, .text(String(value))) }
        return (known, HTTPFieldList.unquoted(value).map { .text($0) } ?? .malformed)
    }
}

extension CacheControl.Scope {
    /// Whether the directive applies to named fields only, and to this one among them.
    ///
    /// - Parameter field: in lower case.
    package func names(_ field: String) -> Bool {
        if case .fields(let names) = self { names.contains(field) } else { false }
    }
}
