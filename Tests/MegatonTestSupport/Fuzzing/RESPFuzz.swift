#if DEBUG || MEGATON_FUZZ
    import NIOCore

    @testable import MegatonRedis

    /// The bytes of a Redis connection: however they are split into packets, they mean the same. Any bytes end as
    /// values, as an error, or in waiting for more, and never hold more memory than the limits allow.
    public struct RESPFuzz: FuzzTarget {
        public let name = "resp"
        public let words = [
            "\r\n", "$-1\r\n", "*-1\r\n", "*", "$", "+", "-", ":", "*1\r\n", "*2\r\n", "$0\r\n\r\n", "%", "_",
        ]
        public let seeds: [[UInt8]] = [
            "+OK\r\n:-42\r\n$-1\r\n*-1\r\n$5\r\na\r\nb\0\r\n-ERR no\r\n*0\r\n",
            "*3\r\n:1\r\n*2\r\n+x\r\n$0\r\n\r\n-OOM full\r\n", "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\nbody\r\n",
            "*2\r\n*2\r\n*1\r\n:1\r\n*0\r\n$-1\r\n+next\r\n", "-MOVED 3999 127.0.0.1:6381\r\n:9223372036854775807\r\n",
        ].map { Array($0.utf8) }

        public init() {}

        public func generate(using random: inout SeededGenerator) -> [UInt8] {
            (0..<Int.random(in: 1...4, using: &random)).flatMap { _ in value(depth: 0, &random) }
        }

        private func value(depth: Int, _ random: inout SeededGenerator) -> [UInt8] {
            let text = String(
                Int.random(in: Int.min...Int.max, using: &random) >> Int.random(in: 0..<64, using: &random)
            )
            switch Int.random(in: 0..<(depth < 8 ? 7 : 5), using: &random) {
            case 0: return Array(":\(text)\r\n".utf8)
            case 1: return Array("+\(text)\r\n".utf8)
            case 2: return Array("-ERR \(text)\r\n".utf8)
            case 3: return Array(random.pick(["$-1\r\n", "*-1\r\n", "*0\r\n"]).utf8)
            case 4:
                let bytes = random.bytes(Int.random(in: 0...random.pick([3, 40, 2000]), using: &random))
                return Array("$\(bytes.count)\r\n".utf8) + bytes + Array("\r\n".utf8)
            default:
                let count = Int.random(in: 0...4, using: &random)
                let elements = (0..<count).flatMap { _ in value(depth: depth + 1, &random) }
                return Array("*\(count)\r\n".utf8) + elements
            }
        }

        public func check(_ input: [UInt8]) throws {
            try checkFragments(input)
            try checkLimits(input)
            try checkCommand(input)
        }

        /// The result of a stream: the values, and whether it ended in an error.
        private struct Outcome: Equatable {
            var values: [RedisValue] = []
            var isBroken = false
        }

        private static let wide = RedisReplyReader.Limits(bytes: 1024 * 1024, elements: 4096)

        private func outcome(_ input: [UInt8], pieces: () -> Int) throws -> Outcome {
            let reader = RedisReplyReader(limits: Self.wide)
            var outcome = Outcome()
            var rest = input[...]
            while !rest.isEmpty, !outcome.isBroken {
                let piece = rest.prefix(max(1, pieces()))
                rest = rest.dropFirst(piece.count)
                var buffer = ByteBuffer(bytes: piece)
                do throws(RedisError) {
                    outcome.values += try reader.read(&buffer)
                } catch {
                    try promise(error.code == .protocolError, "\(error) is no protocol error")
                    outcome.isBroken = true
                }
            }
            return outcome
        }

        private func checkFragments(_ input: [UInt8]) throws {
            let single = try outcome(input) { 1 }
            var random = SeededGenerator(seed: input.reduce(7) { $0 &* 31 &+ UInt64($1) })
            for largest in [7, 100, Int.max] {
                let other = try outcome(input) { Int.random(in: 1...largest, using: &random) }
                // At an error, values that came before it in the same packet are lost with the connection.
                let isSame = single.isBroken ? single.values.starts(with: other.values) : single.values == other.values
                try promise(isSame && single.isBroken == other.isBroken, "\(other) in packets, \(single) byte by byte")
            }
        }

        /// With narrow limits no reply is larger than they allow.
        private func checkLimits(_ input: [UInt8]) throws {
            let limits = RedisReplyReader.Limits(bytes: 256, elements: 8)
            let reader = RedisReplyReader(limits: limits)
            for byte in input {
                var buffer = ByteBuffer(bytes: [byte])
                guard let values = try? reader.read(&buffer) else { return }
                for value in values {
                    let (bytes, elements) = Self.size(of: value)
                    try promise(bytes <= limits.bytes, "a reply of \(bytes) bytes, above the limit")
                    try promise(elements <= limits.elements, "a reply of \(elements) elements, above the limit")
                }
            }
        }

        private static func size(of value: RedisValue) -> (bytes: Int, elements: Int) {
            switch value {
            case .null, .integer: return (1, 0)
            case .status(let text): return (text.unicodeScalars.count, 0)
            case .error(let text): return (text.unicodeScalars.count, 0)
            case .bulk(let buffer): return (buffer.readableBytes, 0)
            case .array(let elements):
                return elements.reduce((0, elements.count)) { sum, element in
                    let size = size(of: element)
                    return (sum.0 + size.bytes, sum.1 + size.elements)
                }
            }
        }

        /// Encoded arguments are read back unchanged: no byte of an argument ends it early.
        private func checkCommand(_ input: [UInt8]) throws {
            let arguments = input.split(separator: 10, maxSplits: 20, omittingEmptySubsequences: false)
            var encoder = RedisCommandEncoder(allocator: ByteBufferAllocator())
            let name = arguments[0].isEmpty ? "PING" : String(decoding: arguments[0], as: UTF8.self)
            let rest = arguments.dropFirst().map { ByteBuffer(bytes: $0) }
            encoder.encode(RedisCommand([.string(name)] + rest.map { .buffer($0) }))
            var stream = ByteBuffer()
            for part in encoder.finish() { stream.writeImmutableBuffer(part) }
            let values = try RedisReplyReader().read(&stream)
            let expected = [RedisValue.array(([ByteBuffer(string: name)] + rest).map { RedisValue.bulk($0) })]
            try promise(values == expected, "\(values) was read where \(expected) was written")
        }
    }
#endif
