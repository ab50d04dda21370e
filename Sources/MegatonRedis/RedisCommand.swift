public import NIOCore

/// A command with its arguments, as bytes.
public struct RedisCommand: Sendable, ExpressibleByArrayLiteral {
    /// The command's name, followed by its arguments.
    public var arguments: [RedisArgument]

    public init(_ arguments: [RedisArgument]) { self.arguments = arguments }

    public init(arrayLiteral elements: RedisArgument...) { self.arguments = elements }
}

/// One argument: text, a number, or bytes that are not copied.
public enum RedisArgument: Sendable, ExpressibleByStringLiteral, ExpressibleByStringInterpolation,
    ExpressibleByIntegerLiteral
{
    case string(String)
    case buffer(ByteBuffer)

    public init(stringLiteral value: String) { self = .string(value) }

    public init(integerLiteral value: Int) { self = .string(String(value)) }

    /// An argument with the decimal digits of a number.
    public static func int(_ value: Int) -> RedisArgument { .string(String(value)) }

    var count: Int {
        switch self {
        case .string(let text): text.utf8.count
        case .buffer(let buffer): buffer.readableBytes
        }
    }
}
