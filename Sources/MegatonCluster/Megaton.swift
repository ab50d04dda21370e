/// The program as a whole.
package enum Megaton {
    package static let version = "0.3.0"
}
