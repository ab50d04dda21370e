internal import MegatonCore

/// A refused image URL; the description is a sentence for the client.
package struct ImageURLError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The part of the URL that is refused.
    package enum Reason: Sendable, Equatable {
        /// The path has not the form `/{signature}/{options}/{source}`, or is too long.
        case path
        /// The signature does not belong to the path.
        case signature
        /// An option or its value is not allowed.
        case option
        /// The URL or the format of the source cannot be read.
        case source
        /// The time of the option `expires` has passed.
        case expired
    }

    package let reason: Reason
    package let description: String

    init(_ reason: Reason, _ description: String) {
        self.reason = reason
        self.description = FieldProblem.sentence(description)
    }

    /// Status of the response. An expired URL is 404, as in imgproxy.
    package var status: Int {
        switch reason {
        case .signature: 403
        case .expired: 404
        case .path, .option, .source: 400
        }
    }

    /// - Parameters:
    ///   - name: The option as the URL writes it.
    ///   - part: The argument, such as `width`; `value` if there is only one.
    ///   - allowed: The allowed values with a verb, such as `are 1 to 100`.
    static func value(_ value: String, of part: String, in name: String, allowed: String) -> Self {
        Self(
            .option,
            "Option \(FieldProblem.quoted(name)) has the \(part) \(FieldProblem.quoted(value)); allowed \(allowed)"
        )
    }
}

/// A setting for image URLs that cannot be used, as the rest of a sentence; never with a key in it.
package struct ImageSettingsError: Error, Sendable, Equatable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}
