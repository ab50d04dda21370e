package import NIOCore

/// One RESP2 reply of Redis.
package enum RedisValue: Sendable, Equatable {
    case null
    case integer(Int)
    /// A status line such as `OK`.
    case status(String)
    /// A bulk string: any bytes.
    case bulk(ByteBuffer)
    case array([RedisValue])
    /// An error inside an array, or the reply to one command of a pipeline.
    case error(String)

    /// The text of a status or bulk string (UTF-8, invalid sequences replaced), or the digits of an integer.
    package var string: String? {
        switch self {
        case .status(let text): text
        case .bulk(let buffer): String(buffer: buffer)
        case .integer(let number): String(number)
        case .null, .array, .error: nil
        }
    }

    /// The number, also if Redis sent its digits as a string.
    package var int: Int? {
        switch self {
        case .integer(let number): number
        case .status, .bulk: string.flatMap(Int.init)
        case .null, .array, .error: nil
        }
    }

    /// The bytes of a bulk string.
    package var buffer: ByteBuffer? {
        if case .bulk(let buffer) = self { buffer } else { nil }
    }

    /// The elements of an array.
    package var array: [RedisValue]? {
        if case .array(let elements) = self { elements } else { nil }
    }

    /// The fields of a flat array of names and values, as returned by HGETALL and CONFIG GET.
    package var dictionary: [String: String] {
        guard let array else { return [:] }
        var fields: [String: String] = [:]
        for index in stride(from: 0, to: array.count - 1, by: 2) {
            if let name = array[index].string { fields[name] = array[index + 1].string ?? "" }
        }
        return fields
    }
}
