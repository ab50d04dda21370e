package import NIOCore

/// A command with its arguments, as bytes.
package struct RedisCommand: Sendable, ExpressibleByArrayLiteral {
    /// The command's name, followed by its arguments.
    package var arguments: [RedisArgument]

    package init(_ arguments: [RedisArgument]) { self.arguments = arguments }

    package init(arrayLiteral elements: RedisArgument...) { self.arguments = elements }
}

/// One argument: text, a number, or bytes that are not copied.
package enum RedisArgument: Sendable, ExpressibleByStringLiteral, ExpressibleByStringInterpolation,
    ExpressibleByIntegerLiteral
{
    case string(String)
    case buffer(ByteBuffer)

    package init(stringLiteral value: String) { self = .string(value) }

    package init(integerLiteral value: Int) { self = .string(String(value)) }

    /// An argument with the decimal digits of a number.
    package static func int(_ value: Int) -> RedisArgument { .string(String(value)) }

    var count: Int {
        switch self {
        case .string(let text): text.utf8.count
        case .buffer(let buffer): buffer.readableBytes
        }
    }
}
