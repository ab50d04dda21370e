/// The value of an argument. Can be written as a literal.
public enum VipsArgument: Sendable, Hashable, CustomStringConvertible {
    case int(Int)
    case double(Double)
    /// One number for all bands, or one for each band.
    case doubles([Double])
    case bool(Bool)
    /// A name from an enumeration, as libvips writes it, e.g. `d90`.
    case name(String)

    /// The text for identifiers. The prefix keeps values of different types apart.
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

extension VipsArgument: ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByStringLiteral, ExpressibleByArrayLiteral
{
    public init(integerLiteral value: Int) { self = .int(value) }
    public init(floatLiteral value: Double) { self = .double(value) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(stringLiteral value: String) { self = .name(value) }
    public init(arrayLiteral elements: Double...) { self = .doubles(elements) }
}
