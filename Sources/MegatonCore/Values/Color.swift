/// An opaque color in sRGB.
public struct Color: Sendable, Hashable, CustomStringConvertible {
    /// Red, 0 to 255.
    public let red: UInt8
    /// Green, 0 to 255.
    public let green: UInt8
    /// Blue, 0 to 255.
    public let blue: UInt8

    /// White.
    public static let white = Color(red: 255, green: 255, blue: 255)
    /// Black.
    public static let black = Color(red: 0, green: 0, blue: 0)

    /// Creates a color from its components.
    public init(red: UInt8, green: UInt8, blue: UInt8) {
        self.red = red
        self.green = green
        self.blue = blue
    }

    /// Parses `#rrggbb` or, with each digit twice, `#rgb`, as in CSS; both also without the `#`.
    public init?(hex: String) {
        let given = hex.hasPrefix("#") ? hex.dropFirst() : hex[...]
        let digits = given.utf8.count == 3 ? given.map { "\($0)\($0)" }.joined() : String(given)
        guard digits.utf8.count == 6, digits.allSatisfy(\.isHexDigit), let number = UInt32(digits, radix: 16) else {
            return nil
        }
        self.init(
            red: UInt8(number >> 16 & 0xFF),
            green: UInt8(number >> 8 & 0xFF),
            blue: UInt8(number & 0xFF)
        )
    }

    /// The color as `#rrggbb`.
    public var description: String {
        "#" + [red, green, blue].hexDigits
    }
}
