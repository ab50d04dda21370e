extension ImageProcessors.VipsOperation {
    /// An argument's value: a literal will do.
    public enum Argument: Sendable, Hashable, CustomStringConvertible {
        case int(Int)
        case double(Double)
        /// One for all bands, or one for each.
        case doubles([Double])
        case bool(Bool)
        /// One of an enumeration's names, as libvips writes them: `d90`.
        case name(String)

        /// For identifiers: each kind begins differently.
        public var description: String {
            switch self {
            case .int(let value): "int:\(value)"
            case .double(let value): "double:\(value)"
            case .doubles(let values): "doubles:\(values)"
            case .bool(let value): "bool:\(value)"
            case .name(let value): "name:\(value)"
            }
        }
    }
}

extension ImageProcessors.VipsOperation.Argument: ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByStringLiteral, ExpressibleByArrayLiteral
{
    public init(integerLiteral value: Int) { self = .int(value) }
    public init(floatLiteral value: Double) { self = .double(value) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(stringLiteral value: String) { self = .name(value) }
    public init(arrayLiteral elements: Double...) { self = .doubles(elements) }
}
